"""The races that the driver's machine decides, by their numbers in the design, and notices."""

from __future__ import annotations

import itertools

import pytest
from elastic_job import Job, running

from hvdlite.launch.elastic import events as on
from hvdlite.launch.elastic.state_machine import Phase


def test_race_1_news_name_the_generation_that_they_break() -> None:
    job = running()
    job.die(4)
    assert (job.notice.generation, job.notice.broken) == (1, True)
    job.report(1, 2, 3).die(3)
    assert job.notice.generation == 2
    assert job.all(on.FailRendezvous) == [on.FailRendezvous(2, 3)]


def test_race_2_the_meeting_of_one_that_dies_before_it_joins_is_failed() -> None:
    job = running()
    job.die(4).report(1, 2, 3).enter(1).die(2)
    assert job.all(on.FailRendezvous) == [on.FailRendezvous(2, 2)]
    assert job.notice.lost == (2,) and job.phase is Phase.REPORTING
    job.report(1, 3)
    assert (job.assignment.generation, job.assignment.member_numbers()) == (3, (1, 3))


def test_race_2_one_that_gives_up_meeting_fails_the_meeting_of_the_others() -> None:
    job = running()
    job.die(4).report(1, 2, 3).report(2, broken=True)
    assert job.all(on.FailRendezvous) == [on.FailRendezvous(2, 2)]
    assert job.notice.broken and job.notice.lost == ()
    job.report(3, broken=True)
    assert job.said == [], "it was told once"
    job.report(1, broken=True)
    assert job.assignment.generation == 3


def test_race_4_two_that_die_at_once_are_one_news() -> None:
    job = running()
    job.die(2, 3)
    assert job.notice.lost == (2, 3)


def test_race_5_the_report_of_a_survivor_that_dies_is_void() -> None:
    job = running()
    job.die(4).report(1, 2).die(1)
    assert job.notice.lost == (1,)
    job.report(3)
    assert job.assignment.member_numbers() == (2, 3)


def test_race_5_any_order_of_two_deaths_and_the_reports() -> None:
    moves = ("4 dies", "3 dies", "1 reports", "2 reports")
    for order in itertools.permutations(moves):
        job = running()
        for move in order:
            member = int(move[0])
            if "dies" in move:
                job.die(member)
            else:
                job.report(member, broken=True)
        assert job.assignment.member_numbers() == (1, 2), order


def test_race_7_a_newcomer_dies_warm_or_while_it_is_admitted() -> None:
    job = running("a:1")
    job.found("a:2").warm(2).die(2, status=1)
    job.hear(after=1.0)
    assert job.starts == [(3, "a", 1)] and job.phase is Phase.RUNNING
    job.warm(3).hear(after=2.0).report(1)
    assert job.assignment.member_numbers() == (1, 3)
    job.die(3, status=1).report(1)
    assert job.assignment.member_numbers() == (1,)
    job.form(1).hear(after=1.9)
    assert job.starts == []
    job.hear(after=0.1)
    assert job.starts == [(4, "a", 1)], "its slot cools down for longer"


RACE_8 = [
    order
    for order in itertools.permutations(["returns", "exits", "breaks", "reports"])
    if order.index("returns") < order.index("exits")
]


@pytest.mark.parametrize("order", RACE_8)
def test_race_8_one_returns_while_another_breaks(order: tuple[str, ...]) -> None:
    job = running("a:3")
    moves = {
        "returns": lambda: job.hear(on.Returned(1)),
        "exits": lambda: job.die(1, status=0),
        "breaks": lambda: job.die(2),
        "reports": lambda: job.report(3, broken=True),
    }
    assignments = []
    for move in order:
        moves[move]()
        assignments += job.all(on.WriteAssignment)
    assert [assignment.assignment.member_numbers() for assignment in assignments] == [(3,)]
    assert job.all(on.End) == []
    job.form(3).hear(on.Returned(3)).die(3, status=0)
    assert job.end == on.End(0)


def test_race_9_a_death_wins_over_a_planned_change_and_the_roll_answers_both() -> None:
    job = running("a:3")
    job.hear(on.MemberLeaves(3, "SIGTERM")).found("a:3,b:1").warm(4)
    notice = job.notice
    assert (notice.number, notice.ready, [each.member for each in notice.leaving]) == (2, (4,), [3])
    job.die(2)
    assert job.notice.number == 3 and job.notice.broken
    job.report(1, broken=True)
    assert job.assignment.member_numbers() == (1, 4) and job.assignment.answers == 3
    job.form(1, 4).hear(after=5.0)
    assert job.all(on.Tell) == []


def test_race_10_a_roll_answers_all_news_before_it() -> None:
    job = running("a:3")
    job.hear(on.MemberLeaves(2, "first")).hear(on.MemberLeaves(3, "second"))
    assert job.notice.number == 2 and [each.member for each in job.notice.leaving] == [2, 3]
    job.report(2, 3, leaves=True).report(1)
    assert job.assignment.answers == 2 and job.assignment.member_numbers() == (1,)


def test_race_11_a_host_that_is_back_within_two_seconds_is_no_news() -> None:
    job = running("a:2,b:1")
    for _ in range(50):
        job.found("a:2", after=0.5)
        assert job.all(on.Tell) == []
        job.found("a:2,b:1", after=0.4)
        assert job.all(on.Tell) == []
    assert job.hear(after=60).said == [] and job.machine.generation == 1


def test_race_11_a_host_that_is_back_before_the_boundary_stays() -> None:
    job = running("a:2,b:1", reset_limit=0)
    job.found("a:2").hear(after=2.0)
    assert [each.member for each in job.notice.leaving] == [3]
    job.found("a:2,b:1")
    assert job.notice.leaving == ()
    job.report(1, 2, 3)
    assert job.assignment.member_numbers() == (1, 2, 3), "an equal assignment is no change"


def test_race_14_a_slot_is_not_given_while_its_old_process_dies() -> None:
    job = running("a:2")
    job.hear(on.MemberLeaves(2, "", 1.0)).hear(after=1.0)
    assert job.kills == [2] and job.all(on.Kill)[0].politely
    job.report(1).form(1).hear(after=20)
    assert job.starts == []
    job.die(2)
    assert job.starts == [(3, "a", 1)]


def test_race_15_the_first_notice_of_a_host_counts() -> None:
    job = running("a:1,b:2")
    job.hear(on.HostLeaves("b", "SIGTERM", 20.0))
    assert [(each.member, each.seconds) for each in job.notice.leaving] == [(2, 20.0), (3, 20.0)]
    job.hear(on.MemberLeaves(2, "SIGTERM", 50.0), after=1.0)
    assert job.said == []
    job.hear(on.HostLeaves("b", "SIGTERM", 50.0))
    assert job.said == []
    job.report(2, 3, leaves=True).report(1)
    job.form(1).die(2, status=0).die(3, status=0).hear(after=1000)
    assert job.starts == [], "nothing is started on a host that leaves"
    job.hear(on.HostLost("b")).hear(after=1.0)
    assert job.starts == [(4, "b", 0), (5, "b", 1)]


def test_race_16_one_that_never_reaches_a_boundary_is_killed() -> None:
    job = running("a:3", leave_seconds=30)
    job.hear(on.MemberLeaves(3, "SIGTERM")).hear(after=29.9)
    assert job.kills == []
    job.hear(after=0.1)
    assert job.kills == [3] and job.notice.lost == (3,) and job.notice.broken
    job.report(1, 2)
    assert job.assignment.member_numbers() == (1, 2)


def test_race_19_a_clock_that_jumps_back_stands_still() -> None:
    job = running("a:2")
    job.found("a:4").warm(3)
    due = job.machine.due()
    job.hear(after=-1000)
    assert job.said == [] and job.machine.due() == due
    job.hear(after=1002)
    assert job.notice.ready == (3,)
    job.hear(on.MemberLeaves(2, "SIGTERM"), after=-1000)
    assert job.hear(after=1029).kills == []
    assert job.hear(after=1).kills == [2]


# Notices.


def test_stop_lets_all_reach_a_boundary() -> None:
    job = running("a:2")
    job.hear(on.Stop(143))
    assert job.notice.stop
    job.report(1, 2, leaves=True)
    assert job.all(on.WriteAssignment) == [] and job.all(on.End) == []
    job.die(1, status=0).die(2, status=0)
    assert job.end.status == 143


def test_a_job_that_is_over_before_it_stops_has_succeeded() -> None:
    job = running("a:2")
    job.hear(on.Returned(1), on.Returned(2)).hear(on.Stop(143))
    job.die(1, status=0).die(2, status=0)
    assert job.end == on.End(0)


def test_stop_ends_the_job_when_its_time_is_up() -> None:
    job = running("a:2", leave_seconds=30, silence_seconds=0.0)
    job.hear(on.Stop(143)).report(1, leaves=True).hear(on.Stop(130), after=29)
    assert job.said == []
    job.hear(after=1)
    assert job.end.status == 143


def test_stop_gives_those_a_boundary_whose_generation_breaks_before() -> None:
    job = running("a:3", least=3)
    job.hear(on.Stop(143)).die(3).report(1, 2, broken=True)
    assert job.assignment.member_numbers() == (1, 2)
    job.enter(1, 2)
    assert job.notice.stop and job.notice.number > job.machine.generation
    job.report(1, 2, leaves=True).die(1, status=0).die(2, status=0)
    assert job.end.status == 143


def test_stop_before_any_generation_ends_the_job_at_once() -> None:
    job = Job("a:2", processes=4)
    assert job.hear(on.Stop(143)).end.status == 143


def test_the_slot_of_a_member_that_has_left_cools_down() -> None:
    job = running("a:2")
    job.hear(on.MemberLeaves(2, "SIGTERM")).report(2, leaves=True).report(1).form(1)
    job.die(2, status=0)
    assert job.starts == []
    job.hear(after=1.0)
    assert job.starts == [(3, "a", 1)]


def test_one_that_leaves_does_not_put_out_its_host() -> None:
    job = running("a:2", failure_unit="host")
    job.hear(on.MemberLeaves(2, "SIGTERM")).report(2, leaves=True).report(1).form(1)
    job.die(2, status=0).hear(after=0.5)
    assert job.starts == [] and job.machine.members.cooling(job.now) == {"a:1": 0.5}
    job.hear(after=0.5)
    assert job.starts == [(3, "a", 1)]


def test_a_notice_holds_whatever_discovery_says() -> None:
    job = running("a:2")
    job.hear(on.MemberLeaves(2, "SIGTERM")).found("a:2")
    assert job.all(on.Tell) == []
    job.found("a:2,b:1")
    assert job.all(on.Tell) == []
    job.hear(after=30)
    assert job.kills == [2]


def test_a_notice_during_a_roll_is_told_in_the_next_generation() -> None:
    job = running("a:3")
    job.die(3).report(1, 2).hear(on.MemberLeaves(2, "SIGTERM"))
    assert job.all(on.Tell) == []
    job.enter(1, 2)
    assert [each.member for each in job.notice.leaving] == [2]


def test_a_notice_while_reports_are_gathered_takes_effect_in_this_roll() -> None:
    job = running("a:3")
    job.die(3).report(2).hear(on.MemberLeaves(2, "SIGTERM")).report(1)
    assert job.assignment.member_numbers() == (1,)
    job.hear(after=30)
    assert job.kills == [2], "its exit is waited for"
    job.die(2)
    assert job.all(on.Tell) == [], "that is no loss"


def test_a_notice_behind_a_boundary_is_told_before_the_next_one() -> None:
    job = running("a:3")
    job.hear(on.MemberLeaves(3, "SIGTERM")).report(3, leaves=True).report(1)
    job.hear(on.MemberLeaves(2, "SIGTERM")).report(2)
    assert job.assignment.member_numbers() == (1, 2), "its leave callbacks have not run"
    job.enter(1, 2)
    assert [each.member for each in job.notice.leaving] == [2]
    job.report(2, leaves=True).report(1)
    assert job.assignment.member_numbers() == (1,)


def test_stop_names_all_members_and_the_seconds_that_they_have() -> None:
    job = running("a:2", leave_seconds=20)
    job.hear(on.MemberLeaves(2, "SIGTERM", 5.0)).hear(on.Stop(143), after=1.0)
    found = [(each.member, each.seconds, each.reason) for each in job.notice.leaving]
    assert found == [(1, 20.0, "the job was asked to end"), (2, 4.0, "SIGTERM")]


def test_all_that_leave_end_the_job_in_order() -> None:
    job = running("a:2")
    job.hear(on.HostLeaves("a", "SIGTERM")).report(1, 2, leaves=True)
    job.die(1, status=0).die(2, status=0)
    assert job.end.status == 143 and "asked to leave" in job.end.sentence


def test_a_break_before_the_last_boundary_leaves_them_a_boundary() -> None:
    job = running("a:3")
    job.hear(on.HostLeaves("a", "SIGTERM")).die(3).report(1, 2, broken=True)
    assert job.assignment.member_numbers() == (1, 2)
    job.enter(1, 2)
    assert [each.member for each in job.notice.leaving] == [1, 2]


def test_hosts_are_not_removed_while_the_state_would_go_with_them() -> None:
    job = running("a:2")
    job.found("b:2").hear(after=10)
    assert job.all(on.Tell) == []
    job.warm(3, 4)
    assert job.notice.ready == (3, 4) and job.notice.leaving == ()
    job.report(1, 2)
    assert job.assignment.member_numbers() == (1, 2, 3, 4)
    job.form(1, 2, 3, 4).hear(after=2.0)
    assert [each.member for each in job.notice.leaving] == [1, 2]
    job.report(1, 2, leaves=True).report(3, 4)
    assert job.assignment.member_numbers() == (3, 4)


def test_newcomers_of_a_host_that_is_gone_are_ended() -> None:
    job = running("a:1")
    job.found("a:1,b:1").warm(2).found("a:1")
    assert job.kills == [2]
    job.die(2).found("a:1,b:1")
    assert job.starts == [(3, "b", 0)], "that was no failure"


def test_a_lost_host_is_many_lost_members_and_cools_down() -> None:
    job = running("a:1,b:2")
    job.hear(on.HostLost("b"))
    assert job.notice.lost == (2, 3) and job.kills == []
    job.report(1).form(1).hear(after=0.5)
    assert job.starts == []
    job.hear(after=0.5)
    assert job.starts == [(4, "b", 0), (5, "b", 1)]


def test_a_process_that_cannot_be_started_is_a_failure() -> None:
    job = Job("a:1")
    job.hear(on.StartFailed(1, "No such file: trian.py"))
    job.hear(after=1.0).hear(on.StartFailed(2, "No such file: trian.py"))
    job.hear(after=2.0).hear(on.StartFailed(3, "No such file: trian.py"))
    assert job.end.status == 127 and "trian.py" in job.end.sentence


def test_old_keys_are_forgotten_two_generations_later() -> None:
    job = running("a:4")
    forgotten = []
    for member in (4, 3, 2):
        job.die(member).report(*range(1, member))
        forgotten += [forget.generation for forget in job.all(on.Forget)]
        job.form(*range(1, member))
    assert forgotten == [1, 2]


def test_survivors_that_cannot_have_trained_together_end_the_job() -> None:
    job = running("a:3")
    job.die(3).report(1, position=9).report(2, position=5)
    assert job.end.status == 1 and "position 9" in job.end.sentence
