"""The rules of the driver's machine, row by row."""

from __future__ import annotations

import signal

import pytest
from elastic_job import Job, running

from hvdlite.launch.elastic import events as on
from hvdlite.launch.elastic.state_machine import Phase
from hvdlite.launch.elastic.unreachable import Unreachable
from hvdlite.rendezvous.documents import Accusation, Cause, Report, Role

SILENT = (Accusation(4, Cause.SILENCE),)


# The start.


def test_one_that_ends_with_0_before_the_others_come_to_init_is_lost() -> None:
    job = Job("a:2", least=1).die(1, status=0)
    assert job.said == [], "perhaps the program does without the others"
    job.meet(2)
    assert job.assignment.member_numbers() == (2,)
    assert job.all(on.Say) == [on.Say("member 1 on a ended with status 0 before hvd.init().")]
    job.form(2).hear(after=1.0)
    assert job.starts == [(3, "a", 0)], "its slot is filled again"


def test_one_that_ends_with_0_before_init_while_others_wait_there_is_lost() -> None:
    job = Job("a:3", least=3).meet(2, 3).die(1, status=0)
    assert job.all(on.Say) and job.starts == []
    job.hear(after=1.0)
    assert job.starts == [(4, "a", 0)]
    assert job.meet(4).assignment.member_numbers() == (4, 2, 3)


def test_a_program_that_does_without_the_others_ends_well() -> None:
    job = Job("a:3").die(1, status=0).die(3, status=0)
    assert job.said == [] and job.hear(after=100).starts == []
    assert job.die(2, status=0).end == on.End(0)
    job = Job("a:2").die(1, status=0).die(2, status=3)
    assert job.end == on.End(3, "member 2 on a ended with status 3.")


def test_the_job_waits_for_as_many_slots_as_processes() -> None:
    job = Job("a:2", processes=3, least=2)
    assert job.starts == []
    job.found("a:2,b:1")
    assert job.starts == [(1, "a", 0), (2, "a", 1), (3, "b", 0)]
    assert all(start.meets for start in job.all(on.Start))


def test_all_meet_in_init() -> None:
    job = Job("a:2,b:1")
    job.meet(3, 1)
    assert job.said == []
    job.meet(2)
    assert job.assignment.member_numbers() == (1, 2, 3)
    assert [entry.role for entry in job.assignment.members] == [
        Role.KEEP,
        Role.RECEIVE,
        Role.RECEIVE,
    ]
    assert (job.assignment.source, job.assignment.generation, job.phase) == (1, 1, Phase.FORMING)
    job.enter(1, 2)
    assert job.phase is Phase.FORMING
    job.enter(3)
    assert job.phase is Phase.RUNNING


def test_more_slots_than_processes_are_filled_up_to_the_most() -> None:
    assert len(Job("a:4", processes=2).starts) == 4
    assert len(Job("a:4", processes=2, most=3).starts) == 3
    assert len(Job("a:4", processes=2, most=2, spares=1).starts) == 3


def test_a_death_before_the_first_roll_does_not_stop_the_others() -> None:
    job = Job("a:3", least=2)
    job.meet(1, 2).die(3, status=1)
    assert job.assignment.member_numbers() == (1, 2)


def test_one_that_comes_too_late_for_the_first_generation_warms_up_alone() -> None:
    job = Job("a:3", least=2)
    job.meet(1, 2).die(3, status=1)
    job.hear(after=1.0)
    assert job.starts == [(4, "a", 2)] and job.the(on.Start).meets
    job.meet(4)
    assert job.said == []
    job.enter(1, 2)
    assert job.all(on.WarmAlone) == [on.WarmAlone(4)]
    job.meet(4).hear(after=3.0)
    assert job.said == [], "a report that was on its way says nothing any more"
    job.warm(4)
    assert job.notice.ready == (4,)


def test_too_few_slots_end_the_job_when_its_time_is_up() -> None:
    job = Job("a:2", processes=3, least=2, elastic_timeout=10)
    assert job.machine.due() == 10
    job.hear(after=10)
    assert job.end.status == 1
    assert "only 0 of the 3 processes" in job.end.sentence and "2 slots" in job.end.sentence


# Rule 1: the assignment waits for every survivor's report, and for no other.


def test_the_roll_waits_for_every_survivor() -> None:
    job = running()
    job.die(3)
    job.report(1).report(2)
    assert job.said == []
    job.report(4)
    assert job.assignment.member_numbers() == (1, 2, 4)


def test_the_roll_waits_for_no_cold_newcomer() -> None:
    job = running()
    job.die(4).report(1, 2, 3).form(1, 2, 3).hear(after=1.0)
    assert job.starts == [(5, "a", 3)]
    job.die(3).report(1, 2)
    assert job.assignment.member_numbers() == (1, 2)


def test_a_warm_newcomer_is_taken_along_by_a_broken_generation() -> None:
    job = running()
    job.die(4).report(1, 2, 3).form(1, 2, 3).hear(after=1.0).warm(5)
    job.die(3).report(1, 2)
    assert job.assignment.member_numbers() == (1, 2, 5)
    assert [entry.role for entry in job.assignment.members] == [Role.KEEP, Role.KEEP, Role.RECEIVE]
    assert job.assignment.source == 1


def test_below_the_minimum_the_roll_waits_for_newcomers() -> None:
    job = running("a:3", least=3, elastic_timeout=100)
    job.die(3).report(1, 2)
    assert job.all(on.WriteAssignment) == [] and job.phase is Phase.REPORTING
    job.hear(after=1.0)
    assert job.starts == [(4, "a", 2)]
    job.warm(4)
    assert job.assignment.member_numbers() == (1, 2, 4)


def test_below_the_minimum_for_too_long_ends_the_job() -> None:
    job = running("a:3", least=3, elastic_timeout=100)
    job.die(3).report(1, 2).found("a:2")
    job.hear(after=99.9)
    assert job.all(on.End) == []
    job.hear(after=0.1)
    assert job.end.status == 1 and "only 2 of the 3 processes" in job.end.sentence


@pytest.mark.parametrize("generation", [0, 1, 3])
def test_a_report_into_another_generation_says_nothing(generation: int) -> None:
    job = running()
    late = [on.Reported(Report(member, generation, 5, whole=True)) for member in (1, 2, 3, 4)]
    job.hear(*late)
    assert job.said == [] and job.phase is Phase.RUNNING


def test_a_generation_is_up_when_all_have_entered_this_one() -> None:
    job = running("a:2")
    job.report(1, 2).enter(1).hear(on.Entered(2, 1))
    assert job.phase is Phase.FORMING
    job.enter(2)
    assert job.phase is Phase.RUNNING


def test_a_report_at_a_boundary_breaks_nothing_and_one_of_an_error_does() -> None:
    planned, broken = running(), running()
    planned.report(1)
    assert planned.said == [] and planned.phase is Phase.REPORTING
    broken.report(1, broken=True)
    assert broken.notice.broken and broken.notice.generation == 1 and broken.notice.lost == ()


# Rule 2: a lost member is out for good, and its slot is given again when it is reaped.


def test_a_slot_is_given_again_when_its_process_is_gone() -> None:
    job = running()
    job.report(1, 2, 3, broken=True, accused=SILENT).hear(after=2.0)
    assert job.kills == [4]
    job.hear(after=100)
    assert job.starts == []
    job.hear(on.Ended(4, 137))
    assert job.starts == [(5, "a", 3)]


def test_a_lost_member_reports_in_vain() -> None:
    job = running()
    job.report(1, 2, 3, broken=True, accused=SILENT).hear(after=2.0)
    assert job.assignment.member_numbers() == (1, 2, 3)
    job.report(4)
    assert job.said == [] and job.phase is Phase.FORMING


# Rule 3: a survivor in long user code is waited for.


def test_a_survivor_in_code_of_its_own_is_waited_for_and_named() -> None:
    job = running(elastic_timeout=600)
    job.die(4).report(1, 2)
    job.hear(after=60)
    assert "member 3 on a" in job.the(on.Say).text
    job.hear(after=539)
    assert job.kills == [] and job.all(on.Say) == []
    job.report(3)
    assert job.assignment.member_numbers()[:3] == (1, 2, 3)


def test_a_survivor_that_never_reports_is_killed_in_the_end() -> None:
    job = running(elastic_timeout=600)
    job.die(4).report(1, 2).hear(after=600)
    assert job.kills == [3]
    assert job.assignment.member_numbers() == (1, 2)


def test_a_generation_that_does_not_come_up_is_broken_and_only_the_silent_one_is_killed() -> None:
    job = running("a:3", elastic_timeout=600)
    job.report(1, 2, 3).hear(after=600)
    assert job.kills == [] and job.notice.broken and job.notice.generation == 2
    assert [fail.generation for fail in job.all(on.FailRendezvous)] == [2]
    job.report(1, 2, broken=True).hear(after=600)
    assert job.kills == [3]
    assert job.assignment.member_numbers() == (1, 2)


# Rule 4: silence is an accusation, a closed connection is none.


@pytest.mark.parametrize(
    ("cause", "killed"),
    [(Cause.SILENCE, [4]), (Cause.CLOSED, []), (Cause.OUTAGE, [])],
)
def test_a_member_accused_of_silence_has_two_seconds(cause: Cause, killed: list[int]) -> None:
    job = running()
    job.report(1, 2, 3, broken=True, accused=(Accusation(4, cause),))
    job.hear(after=1.9)
    assert job.kills == []
    job.hear(after=0.1)
    assert job.kills == killed
    assert bool(job.all(on.WriteAssignment)) == bool(killed)


def test_a_member_that_reports_was_not_silent() -> None:
    job = running()
    job.report(1, 2, 3, broken=True, accused=SILENT).report(4)
    assert job.assignment.member_numbers() == (1, 2, 3, 4)
    job.hear(after=5.0)
    assert job.kills == []


# Rule 5: two living members that cannot reach each other.


def _cut(job: Job) -> Job:
    members = (
        [entry.member for entry in job.assignment.members]
        if job.all(on.WriteAssignment)
        else [1, 2, 3]
    )
    last = members[-1]
    job.form(*members)
    job.report(*members[:-1], broken=True, accused=(Accusation(last, Cause.OUTAGE),))
    return job.report(last, broken=True, accused=(Accusation(1, Cause.SILENCE),))


def test_the_first_time_they_train_together_again() -> None:
    job = _cut(running("a:2,b:1"))
    assert job.assignment.member_numbers() == (1, 2, 3) and job.kills == []


@pytest.mark.parametrize(("silence", "patience"), [(61.0, 31), (1.0, 4), (0.0, None)])
def test_the_next_attempt_of_two_hosts_that_were_together_is_short(
    silence: float, patience: int | None
) -> None:
    job = running("a:2,b:1", silence_seconds=silence)
    assert _cut(job).assignment.patience == patience
    job.form(1, 2, 3).die(2).report(1, 3, broken=True)
    assert job.assignment.patience is None, "it is no attempt of theirs any more"


def test_hosts_that_have_never_met_have_the_start_timeout() -> None:
    job = running("a:2,b:1")
    job.die(2).report(1, 3, broken=True)  # the next generation does not come up
    job.report(1, broken=True, accused=(Accusation(3, Cause.OUTAGE),)).report(3, broken=True)
    assert job.assignment.member_numbers() == (1, 3) and job.assignment.patience is None


def test_members_of_one_host_have_the_start_timeout() -> None:
    job = running("a:3")
    job.report(1, broken=True, accused=(Accusation(3, Cause.OUTAGE),)).report(2, 3, broken=True)
    assert job.assignment.patience is None


def test_the_second_time_the_smaller_host_is_put_out() -> None:
    job = _cut(_cut(running("a:2,b:1")))
    assert job.kills == [3]
    assert job.assignment.member_numbers() == (1, 2)
    job.die(3)
    assert job.starts == [], "its host cools down"
    job.hear(after=1.0)
    assert job.starts == [(4, "b", 0)]


def test_of_two_equal_hosts_the_later_one_is_put_out() -> None:
    job = _cut(_cut(running("a:1,b:1,c:1")))
    assert job.kills == [3] and job.assignment.member_numbers() == (1, 2)


def test_a_closed_connection_is_no_accusation() -> None:
    job = running("a:2,b:1")
    closed = (Accusation(1, Cause.CLOSED),)
    for _ in range(3):
        job.report(1, 2, 3, broken=True, accused=closed)
        assert job.assignment.member_numbers() == (1, 2, 3)
        job.form(1, 2, 3)


def test_only_the_pair_that_has_failed_twice_is_judged() -> None:
    job = running("a:1,b:1,c:1")
    job.report(1, broken=True, accused=(Accusation(3, Cause.OUTAGE),)).report(2, 3).form(1, 2, 3)
    both = (Accusation(2, Cause.OUTAGE), Accusation(3, Cause.OUTAGE))
    job.report(1, broken=True, accused=both).report(2, 3)
    assert job.kills == [3] and job.assignment.member_numbers() == (1, 2)


def test_one_failure_is_judged_once() -> None:
    unreachable = Unreachable()
    assert unreachable.judge([("a", "c")], "abc", 1, 0.0) is None
    assert unreachable.judge([("a", "b"), ("a", "c")], "abc", 2, 1.0) == "c"
    assert unreachable.judge([("a", "b")], "ab", 2, 1.0) is None, "c is out, and the reports stay"


def test_after_a_minute_it_is_the_first_time_again() -> None:
    job = _cut(running("a:2,b:1"))
    job.now += 61
    job = _cut(job)
    assert job.kills == [] and job.assignment.member_numbers() == (1, 2, 3)


# Rule 6: newcomers are admitted warm, together; slots are filled from below.


def test_newcomers_of_two_seconds_are_told_together() -> None:
    job = running("a:2")
    job.found("a:2,b:3")
    assert job.starts == [(3, "b", 0), (4, "b", 1), (5, "b", 2)]
    assert not any(start.meets for start in job.all(on.Start))
    job.warm(3)
    assert job.said == [] and job.machine.due() == 2.0
    job.hear(after=1.5)
    job.warm(4)
    assert job.said == []
    job.hear(after=0.5)
    assert job.notice.ready == (3, 4) and not job.notice.broken
    job.report(1)
    assert job.said == []
    job.report(2)
    assert job.assignment.member_numbers() == (1, 2, 3, 4)


def test_a_newcomer_waits_for_no_other_one_that_does_not_come() -> None:
    job = running("a:2").found("a:3").warm(3)
    assert job.notice.ready == (3,), "it is the only one"
    job = running("a:2").found("a:4").warm(3)
    assert job.said == []
    assert job.hear(after=0.5).warm(4).notice.ready == (3, 4), "the last one is there"
    job = running("a:2").found("a:4").warm(3).die(4, status=1, after=0.5)
    assert job.notice.ready == (3,), "the other one does not come any more"


def test_a_newcomer_that_fills_the_job_waits_for_no_spare() -> None:
    job = running("a:2", most=3)
    job.machine.policy = job.machine.members.policy = type(job.machine.policy)(
        2, 1, most=3, spares=1
    )
    job.found("a:4")
    assert len(job.starts) == 2
    assert job.warm(4).notice.ready == (4,)


def test_while_a_lower_slot_cools_down_higher_ones_wait() -> None:
    job = running("a:2")
    job.die(1).report(2).form(2)
    job.found("a:4")
    assert job.starts == []
    job.hear(after=1.0)
    assert job.starts == [(3, "a", 0), (4, "a", 2), (5, "a", 3)]


def test_spares_are_not_news_until_there_is_room() -> None:
    job = running("a:2", most=2)
    job.machine.policy = job.machine.members.policy = type(job.machine.policy)(
        2, 1, most=2, spares=1
    )
    job.found("a:3").warm(3).hear(after=10)
    assert job.starts == [] and job.all(on.Tell) == []
    job.die(2).report(1)
    assert job.assignment.member_numbers() == (1, 3)


def test_the_first_generation_does_not_wait_for_spares() -> None:
    job = Job("a:3", processes=2, most=2, spares=1)
    assert job.starts == [(1, "a", 0), (2, "a", 1), (3, "a", 2)]
    job.meet(1, 2)
    assert job.assignment.member_numbers() == (1, 2)
    job.form(1, 2).warm(3)
    job.hear(on.MemberLeaves(2, "SIGTERM"))
    assert job.notice.ready == (3,), "it takes the leaver's place at the same boundary"
    job.report(2, leaves=True).report(1)
    assert job.assignment.member_numbers() == (1, 3)


# Rule 7: ranks. Rank 0 is a survivor, and no GPU is taken twice.


def test_hosts_keep_their_order_and_survivors_come_first() -> None:
    job = running("a:2,b:2")
    job.die(1).report(2, 3, 4).form(2, 3, 4).hear(after=1.0).warm(5).hear(after=2.0)
    job.report(2, 3, 4)
    assert job.assignment.member_numbers() == (2, 5, 3, 4)
    places = job.assignment.rank_numbers()
    assert [places[member].local_rank for member in (2, 5, 3, 4)] == [1, 0, 0, 1]
    assert [places[member].cross_rank for member in (2, 5, 3, 4)] == [0, 0, 1, 1]


def test_a_host_without_survivors_goes_behind() -> None:
    job = running("a:1,b:2")
    job.die(1).report(2, 3).form(2, 3).hear(after=1.0).warm(4).hear(after=2.0).report(2, 3)
    assert job.assignment.member_numbers() == (2, 3, 4)


# Rule 8: no survivor.


def test_without_a_survivor_the_job_ends_with_the_first_ones_code() -> None:
    job = running("a:2")
    job.die(2, status=7, line="ValueError: bad").die(1, status=139)
    assert job.end.status == 7
    assert "ValueError: bad" in job.end.sentence
    assert job.hear(after=100).said == []


def test_consequences_are_not_the_cause() -> None:
    job = running("a:2")
    job.die(2, status=1, line="PeerLostError: rank 0").die(1, status=3, line="ValueError: bad")
    assert job.end.status == 3


def test_before_any_has_trained_the_job_starts_anew() -> None:
    job = Job("a:2")
    job.meet(1, 2).enter(1, 2).die(1).die(2)
    assert job.all(on.End) == []
    job.hear(after=1.0)
    assert job.starts == [(3, "a", 0), (4, "a", 1)]
    assert all(start.meets for start in job.all(on.Start))
    job.meet(3, 4)
    assert (job.assignment.generation, job.assignment.member_numbers()) == (2, (3, 4))


def test_a_newcomer_without_the_state_is_no_survivor() -> None:
    job = running("a:1")
    job.found("a:1,b:1").warm(2).hear(after=2.0).report(1)
    assert job.assignment.member_numbers() == (1, 2)
    job.enter(1, 2).die(1)
    assert job.all(on.End) == [], "perhaps it has the state"
    job.report(2, newcomer=True, whole=False)
    assert job.end.status == 137 and "has the state" in job.end.sentence


# Rule 9: success is each member's own.


def test_the_job_has_succeeded_when_all_present_members_have() -> None:
    job = running("a:3")
    job.hear(on.Returned(1)).die(1, status=0)
    assert job.said == []
    job.die(2).report(3)
    assert job.assignment.member_numbers() == (3,)
    job.hear(after=100)
    assert job.starts == [], "after the first that returns no newcomer is started"
    job.form(3).hear(on.Returned(3)).die(3, status=0)
    assert job.end == on.End(0)


def test_after_the_first_that_returns_there_is_no_minimum() -> None:
    job = running("a:2", least=2)
    job.hear(on.Returned(1)).report(2, broken=True)
    assert job.assignment.member_numbers() == (2,)


def test_an_exit_with_code_0_in_the_middle_is_a_loss() -> None:
    job = running("a:2")
    job.die(2, status=0)
    assert job.notice.lost == (2,)


def test_a_failure_behind_the_functions_return_is_the_jobs() -> None:
    job = running("a:2")
    job.hear(on.Returned(1), on.Returned(2)).die(2, status=0).die(1, status=3, line="OSError: full")
    assert job.end.status == 3 and "OSError: full" in job.end.sentence


def test_a_leavers_exit_ends_nothing() -> None:
    job = running("a:3")
    job.hear(on.MemberLeaves(2, "SIGTERM"))
    assert [(leaving.member, leaving.seconds) for leaving in job.notice.leaving] == [(2, 30.0)]
    job.report(2, leaves=True).die(2, status=0)
    assert job.all(on.Tell) == [] and job.all(on.End) == []
    job.report(1, 3)
    assert job.assignment.member_numbers() == (1, 3)


def test_programs_that_never_meet_succeed_as_they_end() -> None:
    job = Job("a:2")
    job.die(1, status=0)
    assert job.said == []
    job.die(2, status=0)
    assert job.end == on.End(0)


def test_programs_without_run_succeed_as_they_end() -> None:
    job = Job("a:2")
    job.meet(1, 2).enter(1, 2).die(1, status=0).die(2, status=0)
    assert job.end == on.End(0)


def test_programs_without_run_start_anew_when_they_fail() -> None:
    job = Job("a:2")
    job.meet(1, 2).enter(1, 2).die(1, status=1, line="ValueError: x")
    job.die(2, status=1, line="PeerLostError: rank 0").hear(after=1.0)
    assert job.starts == [(3, "a", 0), (4, "a", 1)]


# Rule 10: the program's own fault.


def test_the_same_last_line_three_times_at_one_position_ends_the_job() -> None:
    job = running("a:5")
    for member, others in ((5, (1, 2, 3, 4)), (4, (1, 2, 3)), (3, (1, 2))):
        job.die(member, status=1, line="ValueError: sample 7").report(*others, position=5)
        if member != 3:
            job.form(*others)
    assert job.end.status == 1
    assert "ValueError: sample 7" in job.end.sentence and "3 times in a row" in job.end.sentence


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_members_that_are_killed_at_once_are_lost_and_the_others_go_on(number: int) -> None:
    """The line is what all ranks have said, such as that another rank is lost."""
    job = running("a:5")
    job.die(1, 2, 3, status=128 + number, line="generation 1 has ended").report(4, 5)
    assert job.assignment.member_numbers() == (4, 5)


def test_the_last_line_does_not_repeat_the_line_before_it() -> None:
    job = running("a:2").die(1).report(2).form(2).die(2)
    assert job.all(on.Say) == []
    how = (
        "was killed by SIGKILL (sent by a user or a program, or by the kernel when memory ran out)"
    )
    end = "No member is left that has the state of the training."
    assert job.end == on.End(137, f"member 2 on a {how}. {end}")


def test_an_exception_of_three_members_at_once_counts_once() -> None:
    job = running("a:9")
    for turn, others in enumerate(((4, 5, 6, 7, 8, 9), (6, 7, 8, 9), (8, 9))):
        dead = [m for m in range(1, others[0]) if m in job.machine.members.by_number]
        job.die(*dead, status=1, line="ValueError: sample 7").report(*others)
        if turn < 2:
            job.form(*others)
    assert job.end.status == 1 and "3 times in a row" in job.end.sentence


def test_a_host_whose_members_alone_fail_is_put_out_before_the_job_ends() -> None:
    job = running("a:4,b:2")
    line = "RuntimeError: CUDA error: an illegal memory access"
    job.die(1, status=1, line=line).report(2, 3, 4, 5, 6).form(2, 3, 4, 5, 6)
    job.die(2, status=1, line=line).report(3, 4, 5, 6).form(3, 4, 5, 6)
    job.die(3, status=1, line=line).report(4, 5, 6)
    assert job.kills == [4] and job.assignment.member_numbers() == (5, 6)
    said = " ".join(say.text for say in job.all(on.Say))
    assert "host a is put out of the job: its members have ended 3 times in a row" in said
    job.form(5, 6)
    job.die(5, status=1, line=line).report(6)
    assert job.end.status == 1 and "4 times in a row" in job.end.sentence, "b fails as well"


def test_a_host_that_is_needed_is_not_put_out() -> None:
    job = running("a:4,b:2", least=3)
    for dead, others in ((1, (2, 3, 4, 5, 6)), (2, (3, 4, 5, 6)), (3, (4, 5, 6))):
        job.die(dead, status=1, line="ValueError: sample 7").report(*others)
        if dead < 3:
            job.form(*others)
    assert job.end.status == 1 and "3 times in a row" in job.end.sentence


@pytest.mark.parametrize("what", ["another line", "another position", "a kill between"])
def test_anything_else_is_not_the_programs_fault(what: str) -> None:
    job = running("a:6")
    for turn, (member, others) in enumerate(((6, 5), (5, 4), (4, 3))):
        line = "" if turn == 1 and what == "a kill between" else "ValueError: sample 7"
        line += " and 8" if turn == 1 and what == "another line" else ""
        position = 5 + (turn if what == "another position" else 0)
        job.die(member, status=1, line=line).report(*range(1, others + 1), position=position)
        job.form(*range(1, others + 1))
    assert job.phase is Phase.RUNNING


@pytest.mark.parametrize("least", [2, 1])
def test_members_of_a_slot_that_all_fail_end_the_job_only_if_the_others_get_no_further(
    least: int,
) -> None:
    """With fewer members than the minimum the others wait, so the position stays the same. Else
    they train on while the slot cools down, for longer each time."""
    job = running("a:2", least=least)
    newcomer = 2
    for cooldown in (1.0, 2.0, 4.0, 8.0):
        job.die(newcomer, status=1, line="OSError: no GPU").report(1, broken=True)
        if least == 1:
            job.form(1)
            job.position += 10
        job.hear(after=cooldown)
        newcomer = job.the(on.Start).member
        job.warm(newcomer)
        if job.phase is Phase.ENDED:
            break
        if least == 1:
            job.hear(after=2.0).report(1)
        assert job.assignment.member_numbers() == (1, newcomer)
        job.form(1, newcomer)
    assert (job.phase, newcomer) == ((Phase.ENDED, 5) if least == 2 else (Phase.RUNNING, 6))


def test_a_program_that_fails_at_once_is_not_tried_for_ever() -> None:
    job = Job("a:1")
    job.die(1, status=1, line="ImportError: no module")
    job.hear(after=1.0).die(2, status=1, line="ImportError: no module")
    job.hear(after=2.0).die(3, status=1, line="ImportError: no module")
    assert job.end.status == 1 and "ImportError" in job.end.sentence


def test_a_program_that_fails_at_once_on_all_members_is_not_tried_again() -> None:
    job = Job("a:4")
    for member in (1, 2, 3):
        job.die(member, status=1, line="ImportError: no module")
        assert job.phase is not Phase.ENDED, "others may get further"
    job.die(4, status=1, line="ImportError: no module")
    assert job.end.status == 1 and "4 times in a row" in job.end.sentence


def test_members_that_fail_before_the_first_generation_are_no_reason_to_end_the_others() -> None:
    job = Job("a:5", least=2).meet(1, 2)
    job.die(3, 4, 5, status=1, line="OSError: no GPU")
    assert job.assignment.member_numbers() == (1, 2)


def test_newcomers_that_fail_while_they_warm_up_never_end_the_job() -> None:
    job = running("a:2")
    job.found("a:3")
    for seconds in (1.0, 2.0, 4.0, 8.0, 16.0):
        [(newcomer, *_)] = job.starts
        job.die(newcomer, status=1, line="ImportError: no module")
        assert job.phase is Phase.RUNNING and job.all(on.Tell) == []
        job.hear(after=seconds - 0.1)
        assert job.starts == []
        job.hear(after=0.1)
    job.die(2).report(1)
    assert job.assignment.member_numbers() == (1,)


# The limit of resets.


def test_one_reset_too_many_ends_the_job_in_horovods_words() -> None:
    job = running("a:3", reset_limit=1)
    job.die(3).report(1, 2).form(1, 2)
    assert job.phase is Phase.RUNNING
    job.die(2).report(1)
    said = "Horovod was shutdown because number of resets during elastic job exceeded limit: 1"
    assert job.end == on.End(1, said)


def test_the_limit_counts_changes_not_generations() -> None:
    job = running("a:2,b:1", reset_limit=0)
    job.report(1, 2, 3)
    assert job.assignment.member_numbers() == (1, 2, 3)


# --failure-unit host.


def test_a_failure_empties_the_host_where_that_is_the_unit() -> None:
    job = running("a:2,b:2", failure_unit="host")
    job.die(2, status=1)
    assert job.kills == [1] and job.notice.lost == (2, 1)
    job.die(1).report(3, 4)
    assert job.assignment.member_numbers() == (3, 4)
    job.form(3, 4).hear(after=100_000)
    assert job.starts == [], "without a range for good"


def test_with_a_range_the_host_comes_back() -> None:
    job = running("a:1,b:1", failure_unit="host", cooldown_range=(5.0, 50.0))
    job.die(1).report(2).form(2).hear(after=4.9)
    assert job.starts == []
    job.hear(after=0.1)
    assert job.starts == [(3, "a", 0)]
