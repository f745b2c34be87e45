"""Members that are stopped while others wait for them, and agents that do not answer."""

from __future__ import annotations

import pytest
from elastic_job import Job, running

from hvdlite.launch.elastic import events as on
from hvdlite.launch.elastic.agents import KeepAlive
from hvdlite.launch.elastic.exits import LOOKS, StoppedMembers
from hvdlite.launch.spawn.silent_hosts import PAUSE, most_unanswered
from hvdlite.rendezvous.documents import Accusation, Cause

SILENCE = 8.0
EVERY = SILENCE / LOOKS
STOPPED = "it is stopped (SIGSTOP, a debugger), and others wait for it"


def _looks(job: Job, *stopped: int) -> list[int]:
    """It is time to look, and these members are stopped. Returns the members that are killed."""
    job.hear(after=EVERY)
    job.the(on.Look)
    job.hear(*[on.Stopped(member) for member in stopped])
    return job.kills


def _gathers() -> Job:
    """Member 3 has died, and member 2 has not reported."""
    return running("a:3", silence_seconds=SILENCE).die(3).report(1)


def test_a_survivor_that_is_stopped_before_its_report_is_killed() -> None:
    job = _gathers()
    for _ in range(LOOKS):
        assert _looks(job, 2) == []
    assert _looks(job, 2) == [2]
    assert job.assignment.member_numbers() == (1,)


def test_a_member_that_is_stopped_while_its_generation_forms_is_killed_too() -> None:
    job = _gathers()
    job.report(2).enter(1)
    for _ in range(LOOKS):
        assert _looks(job, 2) == []
    assert _looks(job, 2) == [2]
    assert job.the(on.FailRendezvous).member == 2
    job.report(1, broken=True)
    assert job.assignment.member_numbers() == (1,)


def test_a_newcomer_that_is_stopped_while_it_is_admitted_is_killed() -> None:
    job = running("a:3", silence_seconds=SILENCE).die(3)
    job.report(1, 2).form(1, 2).hear(after=1.0).warm(4)
    job.die(2).report(1)
    assert job.assignment.member_numbers() == (1, 4)
    job.enter(1)
    for _ in range(LOOKS):
        assert _looks(job, 4) == []
    assert _looks(job, 4) == [4]


def test_a_survivor_that_goes_on_was_not_stopped_for_too_long() -> None:
    job = _gathers()
    for turn in range(5 * LOOKS):
        between = turn % LOOKS < 2  # it runs in two looks of four
        assert _looks(job, *([] if between else [2])) == []
    job.report(2)
    assert job.assignment.member_numbers() == (1, 2)


def test_nothing_is_looked_at_while_no_member_is_waited_for() -> None:
    job = running("a:3", silence_seconds=SILENCE)
    for _ in range(3 * LOOKS):
        assert job.hear(after=EVERY).all(on.Look) == []
    job.hear(on.Stopped(2))
    assert job.kills == [], "an answer may come late"


def test_without_a_heartbeat_nothing_is_looked_at() -> None:
    job = running("a:3", silence_seconds=0.0).die(3).report(1)
    for _ in range(10):
        assert job.hear(after=EVERY).all(on.Look) == []


def test_one_that_is_stopped_while_the_others_have_returned_is_killed() -> None:
    job = running("a:2", silence_seconds=SILENCE).hear(on.Returned(1)).die(1, status=0).hear()
    for _ in range(LOOKS):
        assert _looks(job, 2) == []
    assert _looks(job, 2) == [2]
    assert job.end.status == 0, "a member has succeeded"


def test_one_that_is_stopped_behind_its_functions_return_is_killed_when_the_job_waits_for_it() -> (
    None
):
    job = running("a:2", silence_seconds=SILENCE).hear(on.Returned(1), on.Returned(2))
    job.die(1, status=0)
    for _ in range(LOOKS):
        assert _looks(job, 2) == []
    assert _looks(job, 2) == [2]
    job.die(2)
    assert job.end == on.End(137, f"member 2 on a was ended: {STOPPED}.")


def test_one_that_is_stopped_behind_its_functions_return_is_not_waited_for_while_others_train() -> (
    None
):
    job = running("a:3", silence_seconds=SILENCE).hear(on.Returned(1))
    for _ in range(3 * LOOKS):
        assert _looks(job, 1) == []
    job.hear(on.Returned(2), on.Returned(3)).die(2, 3, status=0)
    for _ in range(LOOKS):
        assert _looks(job, 1) == []
    assert _looks(job, 1) == [1]


def test_one_that_was_to_leave_and_is_stopped_does_not_keep_its_slot() -> None:
    job = running("a:3", silence_seconds=SILENCE).hear(on.MemberLeaves(2)).die(3)
    job.report(1)
    assert job.assignment.member_numbers() == (1,), "its generation has broken before its boundary"
    job.form(1)
    for _ in range(LOOKS):
        assert _looks(job, 2) == []
    assert _looks(job, 2) == [2]
    assert job.the(on.Kill).politely, "its end is no failure"
    assert job.die(2, status=143).hear(after=1.0).starts == [(5, "a", 1)]


def test_an_accused_member_does_not_wait_for_looks() -> None:
    job = running("a:3", silence_seconds=100.0)
    job.report(1, broken=True, accused=(Accusation(3, Cause.SILENCE),)).report(2, broken=True)
    assert job.hear(after=2.0).kills == [3]


def test_one_answer_may_be_missing_and_two_may_not() -> None:
    stops = StoppedMembers(SILENCE)
    now = 0.0
    for number, found in enumerate([True, False, True, False, False, True, True, True, True]):
        stops.is_due(True, now)
        now += EVERY
        assert stops.is_due(True, now)
        assert not (found and stops.found(1, now)), number
    for _ in range(2):
        now += EVERY
        stops.is_due(True, now)
    assert stops.found(1, now)


# Agents.


def _asked(alive: KeepAlive, times: int, now: float = 0.0) -> float:
    for _ in range(times):
        assert not alive.is_lost
        assert alive.is_due(now)
        assert not alive.is_due(now) and alive.left(now) == PAUSE
        now += PAUSE
    return now


@pytest.mark.parametrize("silence", [0.5, 1.0, 10.0])
def test_an_agent_is_lost_when_it_has_not_answered_for_as_long_as_ssh_waits(silence: float) -> None:
    alive = KeepAlive(silence, 0.0)
    now = _asked(alive, most_unanswered(silence))
    alive.heard()
    _asked(alive, most_unanswered(silence) + 1, now)
    assert alive.is_lost


def test_a_launcher_that_was_suspended_has_asked_nothing_meanwhile() -> None:
    alive = KeepAlive(1.0, 0.0)
    assert alive.is_due(0.0) and alive.is_due(1000.0) and not alive.is_due(1000.0)
    assert not alive.is_lost


def test_without_a_heartbeat_agents_are_kept_for_ever() -> None:
    alive = KeepAlive(0.0, 0.0)
    assert not alive.is_due(1000.0) and alive.left(1000.0) is None and not alive.is_lost
