"""What a machine offers to ranks, and what each of them gets."""

from __future__ import annotations

import os

import pytest

from hvdlite.launch import machine
from hvdlite.launch.machine import THREADS, Machine


@pytest.mark.parametrize(
    ("allowed", "quota", "cores"),
    [
        (8, "", 8),
        (8, "max 100000\n", 8),
        (8, "250000 100000\n", 2),
        (8, "50000 100000\n", 1),
        (2, "800000 100000\n", 2),
        (0, "", 1),
    ],
)
def test_cores_are_those_that_may_run_at_a_time(allowed: int, quota: str, cores: int) -> None:
    assert machine.cores(allowed, quota) == cores


@pytest.mark.parametrize(
    ("there", "visible", "gpus"),
    [
        (4, None, 4),
        (4, "", 0),
        (4, "-1", 0),
        (4, "2,0", 2),
        (4, "1,9,2", 1),
        (4, "GPU-5a, MIG-7b", 2),
        (0, "0,1", 0),
        (0, None, 0),
    ],
)
def test_gpus_are_those_that_a_program_sees(there: int, visible: str | None, gpus: int) -> None:
    assert machine.gpus(there, visible) == gpus


def test_auto_takes_the_gpus_and_else_the_cores() -> None:
    assert machine.count("auto", Machine(cores=8, gpus=2)) == (2, "one for each GPU of this host")
    assert machine.count("auto", Machine(cores=8, gpus=0))[0] == 8
    assert "there is no GPU" in machine.count("auto", Machine(cores=8, gpus=0))[1]
    assert machine.count("cpu", Machine(cores=8, gpus=2))[0] == 8
    with pytest.raises(ValueError, match="there is no GPU on this host"):
        machine.count("gpu", Machine(cores=8, gpus=0))


@pytest.mark.parametrize(
    ("environment", "cores", "ranks", "threads"),
    [
        ({}, 8, 2, "4"),
        ({}, 8, 3, "2"),
        ({}, 2, 4, "1"),
        ({}, 8, 1, None),  # it takes all by itself
        ({THREADS: "5"}, 8, 2, None),
        ({THREADS: ""}, 8, 2, None),
    ],
)
def test_each_rank_gets_its_share_unless_the_user_has_chosen(
    environment: dict[str, str], cores: int, ranks: int, threads: str | None
) -> None:
    assert machine.threads(environment, cores, ranks).get(THREADS) == threads


def test_the_line_about_threads_says_who_sets_what_and_how_to_change_it() -> None:
    assert machine.about_threads({THREADS: "4"}, 8, far=False) == (
        "OMP_NUM_THREADS is not set: each rank computes with 4 threads, its share of 8 cores; "
        "-x OMP_NUM_THREADS=N gives them another number."
    )
    assert "with 1 thread, for there is 1 core;" in machine.about_threads(
        {THREADS: "1"}, 1, far=False
    )
    assert "its share of its host's cores as threads (here 4)" in machine.about_threads(
        {THREADS: "4"}, 8, far=True
    )
    assert "its share of its host's cores as threads;" in machine.about_threads({}, 8, far=True)


def test_this_machine_has_a_core() -> None:
    assert 1 <= machine.here(os.environ).cores <= (os.cpu_count() or 1)


def test_more_ranks_than_cores_are_told() -> None:
    assert machine.about_cores(2, 2) == machine.about_cores(1, 8) == ""
    assert machine.about_cores(12, 2) == (
        "12 ranks take turns on the 2 cores of this host; -np 2 gives each rank one of its own."
    )
    assert machine.about_cores(2, 1) == "2 ranks take turns on the one core of this host."
