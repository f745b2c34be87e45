"""hvd.LocalSGD and hvd.DiLoCo."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

import hvdlite
from checks import check
from checks.api import Run, hvd
from checks.here import Here, raises
from checks.runs import SHAPES, Weights, close, equal, gradients, mean_gradients, same_everywhere

RATE, MOMENTUM = 0.05, 0.9


def simulated(
    here: Here, steps: int, every: int, start: int = 0, members: Sequence[int] = ()
) -> Iterator[Weights]:
    """This rank's weights after each step of LocalSGD: numpy trains those of all ranks."""
    among = list(members or here.ranks)
    weights = {key: np.zeros((here.size, *shape)) for key, shape in SHAPES.items()}
    velocity = {key: np.zeros_like(of) for key, of in weights.items()}
    for step in range(steps):
        everyones = [gradients(rank, 1, step)[0] for rank in here.ranks]
        for key, of in weights.items():
            given = np.stack([each[key] for each in everyones]).astype(np.float64)
            if step < start:
                given[among] = given[among].mean(axis=0)
            velocity[key] = MOMENTUM * velocity[key] + given
            of -= RATE * velocity[key]
            if step >= start and (step + 1 - start) % every == 0:
                of[among] = of[among].mean(axis=0)
        yield {key: of[here.rank].copy() for key, of in weights.items()}


@check(seconds=60)
def an_interval_of_one_step_is_synchronous_training_bit_by_bit(here: Here) -> None:
    for mode in Run.modes_of_conditions:
        ours = Run(Run.sgd(RATE, MOMENTUM), "LocalSGD", mode=mode, every=1)
        want = Run(Run.sgd(RATE, MOMENTUM), mode=mode)
        for run in (ours, want):
            run.train(gradients(here.rank, 6))
        assert equal(ours.weights(), want.weights())
        same_everywhere(here, ours.weights())


INTERVALS = {"2": (2, 0), "3 after 2": (3, 2), "5 after 1": (5, 1)}


@check(interval=tuple(INTERVALS), seconds=90)
def weights_are_averaged_after_each_interval(here: Here, interval: str) -> None:
    """The first steps are synchronous. Between averages ranks differ, until sync()."""
    every, start = INTERVALS[interval]
    steps = start + 2 * every + 1
    for mode in Run.modes_of_conditions[: 1 if every > 3 else None]:  # compiling takes its time
        run = Run(
            Run.sgd(RATE, MOMENTUM), "LocalSGD", mode=mode, widest=True, every=every, start=start
        )
        for step, want in enumerate(simulated(here, steps, every, start)):
            run.train(gradients(here.rank, 1, step))
            close(run.weights(), want, Run.tolerance)
            since = max(step + 1 - start, 0) % every
            assert (run.count().steps, run.count().since) == (step + 1, since)
            if since == 0:
                same_everywhere(here, run.weights())
        everyones = hvd.allgather_object(run.weights())
        assert here.size == 1 or not equal(everyones[0], everyones[1])
        run.sync()
        mean = {key: np.mean([each[key] for each in everyones], axis=0) for key in SHAPES}
        close(run.weights(), mean, Run.tolerance)
        same_everywhere(here, run.weights())
        assert run.count().since == 0  # the interval begins anew


@check(min_ranks=2, seconds=60)
def momentum_is_averaged_if_it_is_asked_for(here: Here) -> None:
    moments = {}
    for momentum in ("local", "average"):
        run = Run(Run.sgd(RATE, MOMENTUM), "LocalSGD", mode=Run.modes_of_conditions[0], every=3,
                  momentum=momentum)  # fmt: skip
        run.train(gradients(here.rank, 3))
        moments[momentum] = run.moments(1)
    everyones = hvd.allgather_object(moments["local"])
    assert not equal(everyones[0], everyones[1])
    mean = {key: np.mean([each[key] for each in everyones], axis=0) for key in SHAPES}
    close(moments["average"], mean, 2e-6)
    same_everywhere(here, moments["average"])
    with raises(ValueError, "momentum='all'"):
        Run(Run.sgd(RATE), "LocalSGD", every=3, momentum="all")


@check(seconds=60)
def an_outer_optimizer_of_rate_one_without_momentum_is_local_sgd(here: Here) -> None:
    for mode in Run.modes_of_conditions:
        inner = Run.sgd(RATE, MOMENTUM)
        outer = hvd.OuterSGD(1.0, momentum=0.0)
        run = Run(inner, "DiLoCo", mode=mode, widest=True, outer=outer, every=3)
        for step, want in enumerate(simulated(here, 7, 3)):
            run.train(gradients(here.rank, 1, step))
            close(run.weights(), want, Run.tolerance)
            if step % 3 == 2:
                same_everywhere(here, run.weights())


@check(every=(1, 3), seconds=60)
def the_outer_optimizer_is_the_frameworks(here: Here, every: int) -> None:
    """Its SGD, whose gradient is how far the ranks have moved on average."""
    mode = Run.modes_of_conditions[0]
    run = Run(Run.sgd(RATE), "DiLoCo", mode=mode, widest=True, outer=hvd.OuterSGD(0.7), every=every)
    want = Run(Run.sgd(0.7, 0.9, nesterov=True), "", widest=True)
    for turn in range(4):
        run.train(gradients(here.rank, every, turn * every))
        given = mean_gradients(here, every, turn * every)
        want.train([{key: RATE * sum(each[key] for each in given) for key in SHAPES}])
        close(run.weights(), want.weights(), Run.tolerance)
        same_everywhere(here, run.weights())
    assert equal({key: anchor for key, (anchor, _) in run.outer().items()}, run.weights())


@check(fragments=(1, 2), seconds=60)
def sync_behind_an_average_changes_nothing(here: Here, fragments: int) -> None:
    """Where ranks are equal already, momentum does not carry the weights on."""
    for mode in Run.modes_of_conditions:
        run = Run(Run.sgd(RATE), "DiLoCo", mode=mode, every=3, fragments=fragments)
        run.train(gradients(here.rank, 6))
        assert run.count().since == 0
        if fragments > 1:
            run.sync()
        weights, outer = run.weights(), run.outer()
        same_everywhere(here, weights)
        run.sync()
        assert equal(run.weights(), weights)
        for key, kept in run.outer().items():
            assert kept[1].any()
            np.testing.assert_array_equal(kept, outer[key])


@check(min_ranks=2, seconds=60)
def averages_by_time_weigh_ranks_by_what_they_have_done(here: Here) -> None:
    """A rank has done so many samples, or steps where a program cannot say more."""
    done = here.rank + 1
    for mode in Run.modes_by_time:
        run = Run(Run.sgd(RATE), "LocalSGD", mode=mode, every="1000h")
        run.train(gradients(here.rank, 1 if Run.has_samples else done), samples=done)
        everyones = hvd.allgather_object(run.weights())
        run.sync()
        weigh = [rank + 1 for rank in here.ranks]
        mean = {key: np.average([each[key] for each in everyones], axis=0, weights=weigh)
                for key in SHAPES}  # fmt: skip
        close(run.weights(), mean, 1e-5)
        same_everywhere(here, run.weights())


@check(seconds=60)
def an_interval_by_time_ends_by_itself(here: Here) -> None:
    for mode in Run.modes_by_time:
        run = Run(Run.sgd(RATE), "LocalSGD", mode=mode, every="1ms")
        for _ in range(1000):
            run.train(gradients(here.rank, 1))
            if run.count().steps > 3 and run.count().since == 0:
                break
        else:
            raise AssertionError("1000 steps took less than a millisecond")
        hvdlite.join()  # ranks may have made different numbers of steps, and meet in averages
        run.sync()
        same_everywhere(here, run.weights())


@check(min_ranks=2, seconds=60)
def ranks_outside_the_process_set_train_alone(here: Here) -> None:
    members = [0, here.size - 1] if here.size > 2 else [0]
    process_set = hvd.add_process_set(members)
    run = Run(Run.sgd(RATE, MOMENTUM), "LocalSGD", mode=Run.modes_of_conditions[0], widest=True,
              every=2, process_set=process_set)  # fmt: skip
    mine = members if here.rank in members else [here.rank]
    for step, want in enumerate(simulated(here, 5, 2, members=mine)):
        run.train(gradients(here.rank, 1, step))
        close(run.weights(), want, Run.tolerance)
    run.sync()
    everyones = hvd.allgather_object(run.weights())
    for rank in here.ranks:
        assert equal(everyones[rank], everyones[0]) == (rank in members)
    hvd.remove_process_set(process_set)
