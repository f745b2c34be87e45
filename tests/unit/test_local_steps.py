"""When weights are averaged: tables of plans and counts, without tensors."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from hvdlite.adapter.agreement import drift
from hvdlite.adapter.local import schedule, warm_up
from hvdlite.adapter.local.outer import OuterSGD, check_outer
from hvdlite.adapter.local.outer import step as outer_step
from hvdlite.adapter.local.schedule import Agreed, Count, Plan, planned


@pytest.mark.parametrize(
    ("arguments", "plan"),
    [
        ({"every": 1}, Plan(every=1)),
        ({"every": 16, "start": 100}, Plan(every=16, start=100)),
        ({"every": "10s"}, Plan(seconds=10.0)),
        ({"every": "500ms"}, Plan(seconds=0.5)),
        ({"every": " 1.5 m "}, Plan(seconds=90.0)),
        ({"every": "2h"}, Plan(seconds=7200.0)),
        ({"every": 8, "adaptive": True}, Plan(every=8, adaptive=True)),
        ({"every": 8, "fragments": 4, "overlap": 1}, Plan(every=8, fragments=4, overlap=1)),
    ],
)
def test_what_a_program_asks_for(arguments: dict[str, object], plan: Plan) -> None:
    assert planned(**arguments) == plan


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        ({"every": 0}, "every=0"),
        ({"every": -3}, "every=-3"),
        ({"every": 2.5}, "every=2.5"),
        ({"every": True}, "every=True"),
        ({"every": "10"}, "'10s'"),
        ({"every": "0s"}, "no time"),
        ({"every": "soon"}, "no time"),
        ({"every": 4, "start": -1}, "start=-1"),
        ({"every": 4, "fragments": 0}, "fragments=0"),
        ({"every": 4, "fragments": 5}, "too few"),
        ({"every": 4, "overlap": 4}, "overlap=4"),
        ({"every": 8, "fragments": 4, "overlap": 2}, "which is 2"),
        ({"every": "10s", "fragments": 2}, "counts steps"),
        ({"every": "10s", "overlap": 1}, "counts steps"),
        ({"every": "10s", "adaptive": True}, "counts steps"),
        ({"every": 8, "adaptive": True, "fragments": 2}, "divide"),
    ],
)
def test_what_cannot_be_is_refused(arguments: dict[str, object], word: str) -> None:
    with pytest.raises(ValueError, match=word):
        planned(**arguments)


def test_averages_by_time_are_refused_in_elastic_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    """A rank would wait in an average for one that waits in state.step()."""
    monkeypatch.setenv("HVDLITE_ELASTIC", "1")
    with pytest.raises(ValueError, match=r"every='10s' is not possible in an elastic job"):
        planned("10s")
    assert planned(10).every == 10


@pytest.mark.parametrize(
    ("plan", "always", "never"),
    [
        (Plan(every=1), True, False),
        (Plan(every=1, weights_only=True), False, True),
        (Plan(every=1, adaptive=True), False, True),
        (Plan(every=2), False, True),
        (Plan(every=2, start=3), False, False),
        (Plan(seconds=1.0), False, True),
        (Plan(seconds=1.0, start=3), False, False),
    ],
)
def test_which_plans_average_gradients(plan: Plan, always: bool, never: bool) -> None:
    assert (plan.always_synchronous, plan.never_synchronous) == (always, never)


def steps_with_an_average(plan: Plan, number: int, clock: float = 0.0) -> list[int]:
    """Which of so many steps, each of which takes `clock` seconds, end with an average."""
    count, found = schedule.begin(plan), []
    for step in range(1, number + 1):
        now = step * clock
        count = schedule.stepped(plan, count, now, np)
        if schedule.is_due(plan, count, now):
            found.append(step)
            count = schedule.averaged(plan, count, 0.0, now, np)
    return found


@pytest.mark.parametrize(
    ("plan", "clock", "steps"),
    [
        (Plan(every=4), 0.0, [4, 8, 12, 16, 20]),
        (Plan(every=4, start=6), 0.0, [10, 14, 18]),
        (Plan(every=1), 0.0, []),  # gradients are averaged instead
        (Plan(every=1, weights_only=True), 0.0, list(range(1, 21))),
        (Plan(every=50), 0.0, []),
        (Plan(seconds=10.0), 4.0, [3, 6, 9, 12, 15, 18]),
        (Plan(seconds=10.0), 20.0, list(range(1, 21))),
        (Plan(seconds=10.0, start=4), 4.0, [7, 10, 13, 16, 19]),
    ],
)
def test_the_steps_that_end_with_an_average(plan: Plan, clock: float, steps: list[int]) -> None:
    assert steps_with_an_average(plan, 20, clock) == steps


def test_steps_are_synchronous_until_the_start() -> None:
    plan, count, found = Plan(every=4, start=3), schedule.begin(Plan(every=4)), []
    for _ in range(5):
        found.append(bool(schedule.is_synchronous(plan, count)))
        count = schedule.stepped(plan, count, 0.0, np)
    assert found == [True, True, True, False, False]


def test_a_clock_of_another_process_ends_the_interval() -> None:
    plan = Plan(seconds=10.0)
    count = schedule.begin(plan, now=1e6)
    assert schedule.is_due(plan, count, now=5.0)


def test_only_averages_by_time_weigh_ranks_by_their_samples() -> None:
    for plan, shares in ((Plan(seconds=5.0), [96.0, 32.0]), (Plan(every=3), [1.0, 1.0])):
        counts = [schedule.begin(plan) for _ in shares]
        for _ in range(3):
            counts[0] = schedule.stepped(plan, counts[0], 0.0, np, samples=32.0)
        counts[1] = schedule.stepped(plan, counts[1], 0.0, np, samples=32.0)
        assert [float(schedule.share(plan, count, np)) for count in counts] == shares
        after = schedule.averaged(plan, counts[0], 0.0, 0.0, np)
        assert (after.samples, after.since, after.steps) == (0.0, 0.0, 3.0)
        assert schedule.share(plan, after, np) > 0.0  # all may average twice in a row


@pytest.mark.parametrize(
    ("losses", "intervals"),
    [
        # ceil(sqrt(loss / first) * 16), at most 16 and at least 1
        ([2.0, 1.0, 0.5, 0.02, 0.0001], [16, 12, 8, 2, 1]),
        ([2.0, 8.0, 2.0], [16, 16, 16]),
        ([2.0, math.nan, 0.5], [16, 16, 8]),
        ([2.0, math.inf, 0.5], [16, 16, 8]),
        ([2.0, 0.5, 0.0, -1.0], [16, 8, 8, 8]),
        ([math.nan, 2.0, 0.5], [16, 16, 8]),  # the first loss that is one
        ([0.0, 2.0, 0.5], [16, 16, 8]),
    ],
)
def test_the_root_of_the_loss_shrinks_the_interval(
    losses: list[float], intervals: list[int]
) -> None:
    plan = Plan(every=16, adaptive=True)
    count, found = schedule.begin(plan), []
    with np.errstate(all="ignore"):
        for loss in losses:
            count = schedule.averaged(plan, count, loss, 0.0, np)
            found.append(int(count.interval))
    assert found == intervals


def test_the_loss_of_an_interval_is_the_mean_of_its_steps() -> None:
    plan = Plan(every=4, adaptive=True)
    count = schedule.begin(plan)
    for loss in (1.0, 2.0, 6.0):
        count = schedule.stepped(plan, count, 0.0, np, loss=loss)
    assert schedule.mean_loss(count, np) == 3.0
    assert schedule.mean_loss(schedule.begin(plan), np) == 0.0


@pytest.mark.parametrize(
    ("ranks", "agreed"),
    [
        # whether it trains, what it has moved, and of what it has state, of each rank
        ([(True, [1, 0, 1]), (True, [1, 0, 1])], Agreed(True, [0, 2], [])),
        ([(False, [1, 0, 0]), (True, [0, 0, 1])], Agreed(True, [0, 2], [])),
        ([(False, [1, 0, 0]), (False, [0, 0, 0])], Agreed(False, [0], [])),
        (
            [(True, [1, 1, 1], [1, 0, 0]), (True, [1, 0, 1], [1, 0, 1])],
            Agreed(True, [0, 1, 2], [2]),
        ),
        # what no rank has moved is of no interest
        ([(True, [1, 0, 0], [1, 1, 0]), (True, [1, 0, 0], [1, 0, 0])], Agreed(True, [0], [])),
    ],
)
def test_what_ranks_know_before_an_average(ranks: list[tuple[Any, ...]], agreed: Agreed) -> None:
    said = [schedule.statement(*each) for each in ranks]
    assert schedule.agreed([max(each) for each in zip(*said, strict=True)], 3) == agreed
    said.append([0] * len(said[0]))  # a rank that has joined
    assert schedule.agreed([max(each) for each in zip(*said, strict=True)], 3) == agreed


@pytest.mark.parametrize(
    ("plan", "starts", "applied"),
    [
        (Plan(every=8), [8], [8]),
        (Plan(every=8, overlap=3), [8], [3]),
        (Plan(every=8, fragments=4), [2, 4, 6, 8], [2, 4, 6, 8]),
        (Plan(every=8, fragments=4, overlap=1), [2, 4, 6, 8], [3, 5, 7, 1]),
        (Plan(every=10, fragments=3, overlap=2), [3, 6, 10], [5, 8, 2]),
        (Plan(every=3, fragments=3), [1, 2, 3], [1, 2, 3]),
    ],
)
def test_when_fragments_start_and_are_applied(
    plan: Plan, starts: list[int], applied: list[int]
) -> None:
    assert schedule.starts(plan) == starts
    assert [schedule.applied_after(plan, part) for part in range(plan.fragments)] == applied


def test_each_average_is_applied_before_the_next_one_starts() -> None:
    for every in range(1, 25):
        for fragments in range(1, every + 1):
            for overlap in range(max(every // fragments, 1)):
                plan = planned(every, fragments=fragments, overlap=overlap)
                under_way: list[int] = []
                for step in range(1, 3 * every + 1):
                    position = (step - 1) % every + 1
                    if under_way and schedule.applied_after(plan, under_way[0]) == position:
                        under_way.pop()
                    for part, start in enumerate(schedule.starts(plan)):
                        if start == position:
                            assert not under_way, plan
                            if plan.overlap:
                                under_way.append(part)


def test_fragments_have_about_equally_many_bytes() -> None:
    sizes = [400, 40, 4000, 40, 3000, 30]
    cuts = drift.cuts(sizes, 2)
    assert [sum(sizes[i] for i in cut) for cut in cuts] == [4440, 3070]


def test_counts_are_as_good_in_a_checkpoint() -> None:
    plan = Plan(every=4)
    count = schedule.begin(plan)
    for _ in range(3):
        count = schedule.stepped(plan, count, 0.0, np)
    again = Count(*[float(number) for number in count])
    assert schedule.is_due(plan, schedule.stepped(plan, again, 0.0, np), 0.0)


def test_the_outer_optimizer_is_torchs_sgd() -> None:
    # By hand: velocity 2 then 0.9 * 2 + 1; the way is gradient + 0.9 * velocity.
    outer = OuterSGD(0.5, momentum=0.9)
    anchor, velocity = outer(10.0, 2.0, 0.0)
    assert (anchor, velocity) == (10.0 - 0.5 * (2.0 + 0.9 * 2.0), 2.0)
    anchor, velocity = outer(anchor, 1.0, velocity)
    assert velocity == 0.9 * 2.0 + 1.0
    assert anchor == pytest.approx(8.1 - 0.5 * (1.0 + 0.9 * 2.8))
    plain = OuterSGD(0.5, momentum=0.9, nesterov=False)
    assert plain(10.0, 2.0, 1.0) == (10.0 - 0.5 * 2.9, 2.9)
    assert OuterSGD(1.0, momentum=0.0)(10.0, 2.0, 0.0)[0] == 8.0


@pytest.mark.parametrize(
    ("gradient", "moves"),
    [([2.0, 0.0], True), ([0.0, 0.0], False), ([0.0, -0.0], False), ([math.nan, 0.0], True)],
)
def test_a_tensor_that_no_rank_has_moved_stays(gradient: list[float], moves: bool) -> None:
    anchor, velocity = np.array([1.0, 1.0]), np.array([3.0, 3.0])
    after = outer_step(OuterSGD(), anchor, np.array(gradient), velocity, np)
    wanted = OuterSGD()(anchor, np.array(gradient), velocity) if moves else (anchor, velocity)
    for got, expected in zip(after, wanted, strict=True):
        np.testing.assert_array_equal(got, expected)


def test_an_outer_optimizer_of_another_kind_is_refused() -> None:
    with pytest.raises(TypeError, match=r"hvd\.OuterSGD"):
        check_outer(0.7)


@pytest.mark.parametrize(
    ("step", "steps", "scale", "factor"),
    [
        (0, 4, 5.0, 2.0),
        (1, 4, 5.0, 3.0),
        (3, 4, 5.0, 5.0),
        (100, 4, 5.0, 5.0),
        (0, 0, 5.0, 5.0),
        (7, 4, 1.0, 1.0),
    ],
)
def test_the_learning_rate_grows_to_that_of_all_ranks(
    step: int, steps: int, scale: float, factor: float
) -> None:
    assert warm_up.factor(step, steps, scale, np) == factor
