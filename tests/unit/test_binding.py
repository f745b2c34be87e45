"""--bind: which processors each rank of a host gets."""

from __future__ import annotations

import os

import pytest

from hvdlite.launch import machine
from hvdlite.launch.machine import Processor

# Two packages of two cores with two threads each, numbered as Linux does: the first threads of all
# cores come first.
TWO_BY_TWO = [Processor(number, package=number % 4 // 2, core=number % 2) for number in range(8)]


@pytest.mark.parametrize(
    ("ranks", "expected"),
    [
        (1, [{0, 1, 2, 3, 4, 5, 6, 7}]),
        (2, [{0, 4, 1, 5}, {2, 6, 3, 7}]),
        (3, [{0, 4}, {1, 5}, {2, 6, 3, 7}]),
        (4, [{0, 4}, {1, 5}, {2, 6}, {3, 7}]),
        (5, []),
    ],
)
def test_shares_are_whole_cores_that_are_neighbours(ranks: int, expected: list[set[int]]) -> None:
    assert [set(share) for share in machine.shares_of_processors(TWO_BY_TWO, ranks)] == expected


@pytest.mark.parametrize(
    ("wish", "allowed", "ranks", "bound"),
    [
        ("auto", 8, 2, False),  # all of the machine: other jobs may be there
        ("auto", 4, 2, True),  # somebody has given us these
        ("auto", 2, 4, False),  # too few
        ("auto", 4, 1, False),  # it has them all as it is
        ("core", 8, 2, True),
        ("core", 8, 1, True),
        ("none", 4, 2, False),
    ],
)
def test_auto_binds_where_the_processors_were_given_to_the_job(
    wish: str, allowed: int, ranks: int, bound: bool
) -> None:
    shares = machine.bind(wish, TWO_BY_TWO[:allowed], online=8, ranks=ranks)
    assert bool(shares) == bound
    assert not shares or len(shares) == ranks


def test_core_with_more_ranks_than_cores_is_an_error_that_says_both_numbers() -> None:
    with pytest.raises(ValueError, match="--bind core: 5 ranks, but the job may use only 4 cores"):
        machine.bind("core", TWO_BY_TWO, online=8, ranks=5)


def test_processors_of_this_host_are_those_that_it_may_use() -> None:
    here, online = machine.processors_here()
    assert {each.number for each in here} == os.sched_getaffinity(0)
    assert online >= len(here)
