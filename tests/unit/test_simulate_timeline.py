"""hvdlite.tools.simulate: schedules from recorded timelines."""

from __future__ import annotations

import json
from typing import Any

import pytest

from hvdlite.tools.simulate import timeline

Event = dict[str, Any]


def allreduce(
    name: str,
    asked: float,
    ended: float,
    lane: int,
    dtype: str = "float32",
    shape: str = "[8, 4]",
    pid: int = 0,
) -> list[Event]:
    """As csrc/engine/observe/timeline.cc writes it. Times are in milliseconds."""
    common = {"pid": pid, "tid": lane}
    asked, ended = 1e3 * asked, 1e3 * ended
    return [
        {"ph": "B", **common, "ts": asked, "name": name},
        {"ph": "B", **common, "ts": asked, "name": "NEGOTIATE_ALLREDUCE"},
        {"ph": "X", **common, "ts": asked - 500, "name": str(1 - pid), "dur": 0},
        {"ph": "X", **common, "ts": asked, "name": str(pid), "dur": 0},
        {"ph": "E", **common, "ts": asked},
        {"ph": "B", **common, "ts": asked, "name": "ALLREDUCE"},
        {"ph": "B", **common, "ts": asked, "name": "SHM_ALLREDUCE"},
        {"ph": "E", **common, "ts": ended, "args": {"algorithm": "shm exchange"}},
        {"ph": "E", **common, "ts": ended, "args": {"dtype": dtype, "shape": shape}},
        {"ph": "E", **common, "ts": ended},
    ]


def steps(*begins: float, pid: int = 0) -> list[Event]:
    """In each: b is ready after 60 ms, and a after 100 ms; both end 10 ms later."""
    events: list[Event] = []
    for begin in begins:
        events += allreduce("b", begin + 60, begin + 110, 1, pid=pid)
        events += allreduce("a", begin + 100, begin + 110, 2, "float16", "[5]", pid)
    return events


@pytest.mark.parametrize("pid", [0, 1])
def test_the_time_alone_goes_from_the_last_end_to_the_last_gradient(pid: int) -> None:
    found = timeline.read(json.dumps(steps(0, 110, 220, 330, pid=pid)))
    assert [(g.name, g.size) for g in found.schedule.gradients] == [("b", 128), ("a", 10)]
    assert [g.ready for g in found.schedule.gradients] == pytest.approx([0.060, 0.100])
    assert found.schedule.seconds == pytest.approx(0.100)
    assert found.steps == 4 and found.overlapped and found.jitter == pytest.approx(0, abs=1e-9)


def test_what_a_step_waits_for_others_is_not_its_own_time() -> None:
    events = steps(0, 110)
    # In the third step the network takes a second longer.
    events += allreduce("b", 280, 1330, 1) + allreduce("a", 320, 1330, 2, "float16", "[5]")
    events += steps(1330, 1440)
    assert timeline.read(json.dumps(events)).schedule.seconds == pytest.approx(0.100)


def test_jitter_is_the_scatter_of_steps_and_one_outlier_does_not_count() -> None:
    events: list[Event] = []
    began = 0.0
    for computes in (100, 98, 102, 98, 102, 98, 102, 98, 102, 500):
        events += allreduce("a", began + computes, began + computes + 1, 1)
        began += computes + 1
    assert timeline.read(json.dumps(events)).jitter == pytest.approx(0.0148 * 2, abs=0.015)


def test_operations_that_are_no_gradients_do_not_count() -> None:
    events = allreduce("once", 1, 2, 3)  # before the training
    for begin in (2, 112, 222):
        events += steps(begin)
        events += allreduce("flags", begin + 109, begin + 110, 3, "uint8", "[24]")
    found = timeline.read(json.dumps(events))
    assert {g.name for g in found.schedule.gradients} == {"a", "b"}


def test_gradients_that_were_reduced_after_the_step_are_noticed() -> None:
    events: list[Event] = []
    for begin in (0, 110, 220):
        events += allreduce("b", begin + 100, begin + 110, 1)
        events += allreduce("a", begin + 100, begin + 110, 2)
    assert not timeline.read(json.dumps(events)).overlapped


def test_an_operation_that_has_not_ended_does_not_count() -> None:
    events = [*steps(0, 110, 220), {"ph": "B", "pid": 0, "tid": 1, "ts": 3e5, "name": "b"}]
    assert timeline.read(json.dumps(events)).steps == 3


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("no JSON", "this is no timeline"),
        ('{"traceEvents": []}', "not a list of events"),
        ("[]", "no two steps"),
        (json.dumps(steps(0)), "no two steps"),
    ],
)
def test_other_files_are_refused(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        timeline.read(text)
