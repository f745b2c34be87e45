"""hvd.DriftGuard() in a loop around DistributedGradientTape."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

import hvdlite.tensorflow as hvd
from checks import check
from checks.drifting import drifting, odd_one, told_once
from checks.here import Here, raises
from hvdlite.exceptions import MismatchError

WITHIN = 9  # HVDLITE_DRIFT_STEPS


class Loop:
    """Trains two variables."""

    def __init__(self) -> None:
        self.variables = [tf.Variable(tf.ones([4, 3]), name="kernel"), tf.Variable(1.0, name="b")]
        with drifting(WITHIN):
            self.guard = hvd.DriftGuard()

    @tf.function  # type: ignore[misc]
    def _step(self, x: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(self.variables[0] * x) * self.variables[1]
        gradients = hvd.DistributedGradientTape(tape).gradient(loss, self.variables)
        for variable, gradient in zip(self.variables, gradients, strict=True):
            variable.assign_sub(1e-3 * gradient)
        return loss

    def train(self, here: Here, steps: int) -> None:
        for step in range(steps):
            loss = self._step(tf.constant(float(here.rank + step)))
            self.guard.compare(self.variables, loss)


@check(min_ranks=2, number=(0, 1))
def a_variable_that_differs_on_one_rank_is_found(here: Here, number: int) -> None:
    odd = here.size - 1
    loop = Loop()
    loop.train(here, 2 * WITHIN)
    assert loop.guard.compared > 0
    if here.rank == odd:
        loop.variables[number].assign(loop.variables[number] + 2.0**-10)
    name = ("kernel", "b")[number]
    with raises(MismatchError, f"'{name}:0'", *odd_one(here, odd)) as caught:
        loop.train(here, WITHIN)
    here.same_on_all_ranks(str(caught[0]))


@check(min_ranks=2)
def numbers_that_are_finite_on_no_rank_are_told_with_the_first(here: Here) -> None:
    odd = here.size - 1
    loop = Loop()
    loop.train(here, 3)
    if here.rank == odd:
        loop.variables[0].assign(loop.variables[0] * float("nan"))
    told_once(
        here,
        lambda: loop.train(here, 4 * WITHIN),
        f"(and 1 more) is not finite on all ranks since step 4, first on rank {odd} (found in",
    )


@check()
def a_guard_does_not_belong_into_a_graph(here: Here) -> None:
    guard = hvd.DriftGuard()
    with raises(RuntimeError, "in the loop over the batches"):
        tf.function(lambda x: guard.compare(x))(tf.ones(2))
