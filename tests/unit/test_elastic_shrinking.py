"""A host keeps fewer slots: empty ones and newcomers go first, and trained members stay."""

from __future__ import annotations

from elastic_job import Job, running

from hvdlite.launch.elastic import events as on
from hvdlite.launch.elastic.state_machine import Phase


def _leaving(job: Job) -> list[int]:
    return [each.member for each in job.notice.leaving]


def _warming(hosts: str = "a:3") -> Job:
    """Member 1 has died, and member 4 warms up in its slot, slot 0."""
    job = running(hosts)
    job.die(1).report(2, 3).form(2, 3).hear(after=1.0)
    assert job.starts == [(4, "a", 0)]
    return job


def test_an_empty_slot_goes_first() -> None:
    job = running("a:3")
    job.die(1).report(2, 3).form(2, 3).found("a:2")
    assert job.said == []
    assert job.hear(after=1000).said == [], "the two that train have both slots"


def test_a_newcomer_goes_before_a_trained_member() -> None:
    job = _warming().found("a:2")
    assert job.kills == [4]
    job.die(4)
    assert job.hear(after=1000).said == []
    job.die(2).report(3)
    assert job.assignment.member_numbers() == (3,), "it has the state"


def test_a_newcomer_goes_when_it_is_warm_too() -> None:
    job = _warming().warm(4)
    assert job.notice.ready == (4,)
    job.found("a:2")
    assert job.kills == [4]
    job.report(2, 3)
    assert job.assignment.member_numbers() == (2, 3)


def test_a_member_that_has_not_trained_yet_goes_before_one_that_has() -> None:
    job = _warming().warm(4).hear(after=2.0).report(2, 3)
    assert job.assignment.member_numbers() == (2, 3, 4)
    job.enter(2, 3, 4).found("a:2").hear(after=2.0)
    assert _leaving(job) == [4]
    job.train(4).hear(after=2.0)
    assert job.said == [], "it was told, and leaves"


def test_of_newcomers_those_of_lower_slots_stay() -> None:
    job = running("a:1")
    job.found("a:4").warm(4).found("a:3")
    assert job.kills == [4]


def test_of_trained_members_those_of_lower_slots_stay() -> None:
    job = running("a:2,b:3")
    job.found("a:2,b:1").hear(after=2.0)
    assert _leaving(job) == [4, 5]


def test_the_lowest_slots_are_filled_as_far_as_the_number_goes() -> None:
    job = running("a:5")
    job.die(1).die(2, 3).report(4, 5).form(4, 5).found("a:3").hear(after=1.0)
    assert job.starts == [(6, "a", 0)], "slots 3 and 4 are the others of three"
    job.warm(6).hear(after=2.0).report(4, 5)
    places = job.assignment.rank_numbers()
    assert {number: place.local_rank for number, place in places.items()} == {6: 0, 4: 1, 5: 2}
    job.form(4, 5, 6).die(5)
    assert job.starts == [(7, "a", 1)]


def test_nothing_starts_while_a_process_of_a_slot_that_is_gone_ends() -> None:
    job = running("a:4")
    job.die(1).report(2, 3, 4).form(2, 3, 4).found("a:2").hear(after=2.0)
    assert _leaving(job) == [4]
    job.report(4, leaves=True).report(2, 3).form(2, 3).die(3).report(2).form(2)
    job.hear(after=10)
    assert job.starts == [], "member 4 has left, and its process ends"
    job.die(4, status=0)
    assert job.starts == [(5, "a", 0)]


def test_a_host_that_grows_again_fills_its_lower_slots() -> None:
    job = _warming().found("a:2").die(4).found("a:3")
    assert job.starts == [(5, "a", 0)]


def test_a_member_that_was_told_to_leave_stays_when_another_is_lost() -> None:
    job = running("a:2").found("a:1").hear(after=2.0)
    assert _leaving(job) == [2]
    job.die(1)
    assert job.notice.lost == (1,) and job.notice.leaving == ()
    job.report(2, broken=True)
    assert job.assignment.member_numbers() == (2,)
    job.form(2)
    assert job.hear(after=1000).said == [] and job.phase is Phase.RUNNING


def test_a_member_that_was_told_to_leave_stays_when_another_is_killed() -> None:
    job = running("a:2,b:1", elastic_timeout=20).found("a:1,b:1").hear(after=2.0)
    assert _leaving(job) == [2]
    job.report(2, 3, broken=True).hear(after=20)
    assert job.kills == [1] and job.assignment.member_numbers() == (2, 3)


def test_a_member_that_was_told_to_leave_stays_when_another_leaves_with_notice() -> None:
    job = running("a:3").found("a:2").hear(after=2.0)
    assert _leaving(job) == [3]
    job.hear(on.MemberLeaves(1, "SIGTERM"))
    assert _leaving(job) == [1]
    job.report(1, leaves=True).report(2, 3)
    assert job.assignment.member_numbers() == (2, 3)


def test_a_member_of_a_removed_host_stays_when_no_other_has_the_state_any_more() -> None:
    job = running("a:1,b:1").found("b:1").hear(after=2.0)
    assert _leaving(job) == [1]
    job.die(2)
    assert job.notice.leaving == ()
    job.report(1, broken=True)
    assert job.assignment.member_numbers() == (1,)
    job.form(1).hear(after=1.0)
    assert job.starts == [(3, "b", 0)]
    job.hear(after=1000)
    assert job.said == [], "it is not killed before the newcomer has the state"
    job.warm(3).hear(after=2.0).report(1).form(1, 3).hear(after=2.0)
    assert _leaving(job) == [1]


def test_a_spare_goes_before_a_trained_member() -> None:
    job = Job("a:3", processes=2, most=2, spares=1)
    job.meet(1, 2).form(1, 2).warm(3)
    job.die(1).report(2)
    assert job.assignment.member_numbers() == (2, 3)
    job.form(2, 3).hear(after=1.0)
    assert job.starts == [(4, "a", 0)], "the next spare"
    job.found("a:2")
    assert job.kills == [4]
    assert job.hear(after=1000).said == []
