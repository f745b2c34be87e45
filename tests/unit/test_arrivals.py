"""hvdlite/torch/distributed/arrivals.py: who has not come to a collective of another backend."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import Any

import pytest
from installed import needs_installed

needs_installed("torch")


@pytest.fixture(scope="module")
def arrivals() -> ModuleType:
    return import_module("hvdlite.torch.distributed.arrivals")


def told(arrivals: ModuleType, *asked: tuple[int, str, float] | None) -> dict[int, Any]:
    """By rank, of one group that all are in."""
    members = list(range(len(asked)))
    return {
        rank: arrivals.Report(
            f"train.py:{rank} (step)",
            {} if each is None else {"g": (arrivals.Asked(*each), members)},
        )
        for rank, each in enumerate(asked)
    }


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (
            [(5, "allreduce", 70), (4, "allreduce", 65), (5, "allreduce", 61)],
            "rank 1 has not come to allreduce 5 of torch's group 'g', for which ranks 0 and 2 wait "
            "for 61 s: rank 1 is in train.py:1 (step)",
        ),
        (
            [(5, "broadcast", 70), (4, "allreduce", 65), (-1, "", 99)],
            "ranks 1 and 2 have not come to broadcast 5 of torch's group 'g', for which rank 0 "
            "waits for 70 s: rank 1 is in train.py:1 (step); rank 2 is in train.py:2 (step)",
        ),
        (
            [(5, "broadcast", 70), (5, "allreduce", 65)],
            "the ranks ask torch's group 'g' for different collectives as number 5: broadcast in "
            "train.py:0 (step) on rank 0; allreduce in train.py:1 (step) on rank 1",
        ),
        ([(5, "allreduce", 70), (4, "allreduce", 59)], ""),  # has just asked for something
        ([(6, "allreduce", 10), (4, "allreduce", 99)], ""),  # the other still goes on
        ([(5, "allreduce", 70), (5, "allreduce", 70)], ""),  # all have come
        ([(5, "allreduce", 70), None], ""),  # has not made the group yet, or has destroyed it
    ],
)
def test_who_is_behind(
    arrivals: ModuleType, asked: list[tuple[int, str, float] | None], said: str
) -> None:
    found = arrivals.verdicts(told(arrivals, *asked), 60.0)
    assert list(found.values()) == [said] * bool(said)


def test_a_rank_that_has_told_nothing_is_waited_for(arrivals: ModuleType) -> None:
    reports = told(arrivals, (5, "allreduce", 70), (4, "allreduce", 70))
    del reports[1]
    assert arrivals.verdicts(reports, 60.0) == {}


def test_only_members_of_a_group_are_looked_at(arrivals: ModuleType) -> None:
    Asked, Report = arrivals.Asked, arrivals.Report
    one = Report("a.py:1", {"g": (Asked(3, "allgather", 90.0), [1, 2])})
    other = Report("a.py:2", {"g": (Asked(2, "allgather", 90.0), [1, 2])})
    found = arrivals.verdicts({0: Report("a.py:3", {}), 1: one, 2: other}, 60.0)
    assert list(found) == [("g", 3)]


def test_a_report_comes_as_it_was_sent(arrivals: ModuleType) -> None:
    report = arrivals.Report("a.py:1", {"g": (arrivals.Asked(3, "allgather", 9.5), [1, 2])})
    assert arrivals.Report.decode(report.encode()) == report
