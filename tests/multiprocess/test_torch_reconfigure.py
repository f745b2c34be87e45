"""Process groups whose members the program chooses: torch's reconfigure, by its functions from
torch 2.14 on, and by the group's methods before."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from installed import needs_installed
from launched import Job
from machine import within
from mpis import finish, start
from others import PYTHON

needs_installed("torch")

PROGRAM = str(Path(__file__).with_name("reconfigure_program.py"))


def started(job: Job, history: str, *names: str) -> dict[str, subprocess.Popen[bytes]]:
    quiet = {"HVDLITE_HEARTBEAT_SECONDS": "0", "OPENBLAS_NUM_THREADS": "1"}
    return {name: start(job, [PYTHON, PROGRAM, name, history], **quiet) for name in names}


def well(process: subprocess.Popen[bytes]) -> list[str]:
    codes, text = finish(process)
    lines = text.splitlines()
    assert codes == [0] and lines[-1] == "well", text
    return lines


@pytest.mark.costly
@pytest.mark.watchdog(150)
@pytest.mark.parametrize("history", ["one_after_another", "an_abort", "nobody_comes", "late"])
def test_members_are_chosen_again_and_again(job: Job, history: str) -> None:
    for process in started(job, history, "a", "b", "c").values():
        mended = [line for line in well(process) if line.startswith("mended in ")]
        assert all(float(line.split()[2]) < 1e3 * within(2) for line in mended), mended


@pytest.mark.watchdog(150)
def test_survivors_and_a_newcomer_go_on_without_the_first(job: Job) -> None:
    processes = started(job, "a_death", "a", "b", "c", "d")
    job.wait_for_files([f"works.{name}" for name in "abc"], 60)
    processes.pop("a").kill()
    b, c, d = map(well, processes.values())
    told = [next(line for line in lines if line.startswith("next ")) for lines in (b, c)]
    assert all(float(line.split()[1]) < 1e3 * within(2) for line in told), told
    assert all("rank 0 died" in "\n".join(lines) for lines in (b, c)), (b, c)
    assert d == ["well"]


@pytest.mark.watchdog(150)
def test_refused_where_a_driver_chooses_the_members(job: Job) -> None:
    process = start(job, [PYTHON, PROGRAM, "a", "late"], HVDLITE_MEMBER="1")
    codes, text = finish(process)
    assert codes == [1] and "hvdliterun chooses this job's members" in text, text
