"""LocalSGD and DiLoCo: the user's Keras optimizer, whose ranks make steps of their own and average
weights from time to time.

Counts, anchors and velocities are variables of the optimizer, so that files, broadcasts and elastic
states have them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hvdlite.adapter.local import schedule
from hvdlite.adapter.local.averaging import Averager, Settings, settings_of
from hvdlite.adapter.local.outer import Outer, OuterSGD
from hvdlite.adapter.local.schedule import Count, Plan
from hvdlite.core.process_sets import ProcessSet, global_process_set
from hvdlite.keras import backends
from hvdlite.keras.flavour import KERAS, LEGACY
from hvdlite.keras.host import prepared, to_numpy
from hvdlite.keras.wrapping import (
    handed_on,
    refuse_inside_loss_scaling,
    refuse_other_variables,
    refuse_twice,
    take_variables,
    when,
    with_loss_scaling,
)

_NUMBERS = len(Count._fields)


class LocalSteps:
    """What LocalSGD and DiLoCo add to the class of a Keras 3 optimizer."""

    # Of the class, so that what from_config() makes of it has it as well.
    _hvd_settings: Settings
    _hvd_handing_on = False
    _hvd_count: Any = None
    _hvd_outer: Sequence[tuple[Any, Any]] = ()  # anchors and velocities

    # ---- what Keras calls

    def build(self, variables: Sequence[Any]) -> None:
        """Makes the optimizer's variables."""
        name = "LocalSGD" if self._hvd_settings.outer is None else "DiLoCo"
        around = f"hvd.{name}(keras.optimizers.LossScaleOptimizer(optimizer), ...)"
        refuse_inside_loss_scaling(name, f"Wrap it the other way round:\n    {around}")
        super().build(variables)  # type: ignore[misc]
        take_variables(self)
        self._hvd_add_variables()

    def apply(self, grads: Sequence[Any], trainable_variables: Sequence[Any] | None = None) -> None:
        """One step of this rank, and an average of the weights if it is time."""
        if self._hvd_handing_on or len(grads) == 0:
            return super().apply(grads, trainable_variables)  # type: ignore[misc]
        variables = prepared(self, trainable_variables)
        outside = backends.chosen().outside
        grads = outside(self._hvd_before, grads, variables)
        super().apply(grads, variables)  # type: ignore[misc]
        outside(self._hvd_after)
        return None

    def stateless_apply(
        self, optimizer_variables: list[Any], grads: list[Any], trainable_variables: list[Any]
    ) -> tuple[list[Any], list[Any]]:
        """apply() as a function of the state."""
        refuse_other_variables(self, trainable_variables)
        with self._hvd_scope(optimizer_variables, trainable_variables) as scope:
            grads = self._hvd_before(grads, self._trainable_variables)  # type: ignore[attr-defined]
        weights, state = self._hvd_values(scope)
        with handed_on(self):
            weights, state = super().stateless_apply(state, grads, weights)  # type: ignore[misc]
        with self._hvd_scope(state, weights) as scope:
            self._hvd_after()
        return self._hvd_values(scope)

    # ---- what programs call

    def sync(self) -> None:
        """Averages all weights now. All ranks call it: before they evaluate or save the model, at
        the end, and after hvd.join(). Not in a compiled function.

        Where averages go by time, it takes part in those of ranks that are still on their way.
        """
        settings = self._hvd_settings
        if settings.options.takes_part() and not settings.plan.always_synchronous:
            _Averager(self).sync()

    def adapt(self, loss: float) -> None:
        """Sets the interval that follows from the mean loss of all ranks. For adaptive=True; see
        hvd.callbacks.LocalStepsCallback."""
        plan = self._hvd_settings.plan
        count = Count(*map(float, to_numpy(self._hvd_count)))
        after = schedule.averaged(plan, count, loss, count.at, np)
        kept = count._replace(interval=float(after.interval), first=float(after.first))
        self._hvd_count.assign(np.array(kept, np.float32))

    # ---- around a step

    def _hvd_before(self, gradients: Sequence[Any], variables: Sequence[Any]) -> list[Any]:
        """Of the first step, and of synchronous ones."""
        averager, ops = _Averager(self), KERAS.ops
        begun = self._hvd_count.value[0] > 0.0
        first = averager.stacked(schedule.begin(averager.plan, averager.now()))
        self._hvd_count.assign(ops.where(begun, self._hvd_count.value, first))
        if self._hvd_settings.outer is not None:
            averager.when(ops.logical_not(begun), self._hvd_anchor)
        return averager.gradients(gradients, variables)

    def _hvd_after(self) -> None:
        _Averager(self).stepped()

    # ---- what there is

    def _hvd_add_variables(self) -> None:
        if self._hvd_count is not None:
            return
        count = self.add_variable((_NUMBERS,), "zeros", "float32", name="local_steps")  # type: ignore[attr-defined]
        outer = []
        if self._hvd_settings.outer is not None:
            for variable in self._trainable_variables:  # type: ignore[attr-defined]
                add = self.add_variable_from_reference  # type: ignore[attr-defined]
                outer.append((add(variable, name="anchor"), add(variable, name="velocity")))
        object.__setattr__(self, "_hvd_count", count)  # untracked: they are among the variables
        object.__setattr__(self, "_hvd_outer", outer)

    def _hvd_anchor(self) -> None:
        """Ranks start where they are."""
        for variable, (anchor, _) in zip(self._trainable_variables, self._hvd_outer, strict=True):  # type: ignore[attr-defined]
            anchor.assign(KERAS.ops.copy(variable.value))

    def _hvd_variables(self) -> list[Any]:
        return [*self._trainable_variables, *self.variables]  # type: ignore[attr-defined]

    # ---- without state, on JAX

    def _hvd_scope(self, state: Sequence[Any], weights: Sequence[Any]) -> Any:
        values = [*weights, *state]
        mapping = list(zip(self._hvd_variables(), values, strict=True))
        return KERAS.StatelessScope(state_mapping=mapping)

    def _hvd_values(self, scope: Any) -> tuple[list[Any], list[Any]]:
        trained = self._trainable_variables  # type: ignore[attr-defined]
        weights = [scope.get_current_value(variable) for variable in trained]
        return weights, [scope.get_current_value(v) for v in self.variables]  # type: ignore[attr-defined]


class _Averager(Averager):
    ops: Any = getattr(KERAS, "ops", None)  # which tf_keras has not

    def __init__(self, optimizer: Any) -> None:
        self._optimizer = optimizer
        self._count = optimizer._hvd_count
        inner = getattr(optimizer, "inner_optimizer", optimizer)
        state = [variable for variable in inner.variables if variable is not self._count]
        super().__init__(optimizer._hvd_settings, backends.chosen(), optimizer._trainable_variables,
                         state, optimizer._hvd_outer)  # fmt: skip

    @property
    def count(self) -> Count:
        return Count(*(self._count.value[i] for i in range(_NUMBERS)))

    def keep(self, count: Count) -> None:
        self._count.assign(self.stacked(count))

    def stacked(self, count: Count) -> Any:
        return self.ops.stack([self.cast(number, "float32") for number in count])

    def sizes(self) -> list[int]:
        return [int(np.prod(variable.shape)) for variable in self.weights]

    def cast(self, value: Any, dtype: Any) -> Any:
        return self.ops.cast(value, dtype)

    def when(self, condition: Any, change: Callable[[], None]) -> None:
        when(condition, change, self._optimizer._hvd_variables())


def LocalSGD(optimizer: Any, every: int | str, start: int = 0, momentum: str = "local",
             adaptive: bool = False,
             process_set: ProcessSet = global_process_set) -> Any:  # fmt: skip
    """The optimizer, whose ranks average their weights after every so many steps instead of their
    gradients in each. It is the same object, with a class of the same name.

    `every`: a number of steps, or a time such as "10s", after which each rank weighs as many steps
    as it has done. The first `start` steps are synchronous. `momentum`: what the optimizer
    remembers of gradients stays "local", or is averaged as well ("average"). With `adaptive`, and
    hvd.callbacks.LocalStepsCallback, the interval shrinks from `every` with the root of the loss
    (AdaComm). See docs/guides/communicating-less.md.
    """
    plan = schedule.local_sgd(every, start, momentum, adaptive)
    return _with_local_steps(optimizer, plan, None, momentum == "average", process_set)


def DiLoCo(inner: Any, outer: Outer = OuterSGD(), every: int | str = 500, fragments: int = 1,  # noqa: B008
           process_set: ProcessSet = global_process_set) -> Any:  # fmt: skip
    """The inner optimizer, whose ranks make `every` steps of their own; then `outer` makes a step
    with the average of what they have changed.

    With `fragments` one part of the model after the other is averaged, evenly spread over the
    steps.
    """
    plan = schedule.diloco(outer, every, fragments)
    return _with_local_steps(inner, plan, outer, False, process_set)


def _with_local_steps(
    optimizer: Any, plan: Plan, outer: Outer | None, averages_state: bool, process_set: ProcessSet
) -> Any:
    if LEGACY or not isinstance(optimizer, KERAS.optimizers.Optimizer):
        raise TypeError(
            f"expected an optimizer of Keras 3, got {type(optimizer).__module__}."
            f"{type(optimizer).__name__}"
        )
    settings = settings_of(plan, outer, averages_state, process_set)
    refuse_twice(optimizer)
    settings.options.takes_part()  # says that hvd.init() is missing
    backends.chosen()  # loaded now, and not while a step is being traced
    optimizer = with_loss_scaling(optimizer)
    base = type(optimizer)
    body = {"__module__": base.__module__, "__qualname__": base.__qualname__,
            "__doc__": base.__doc__, "_hvd_settings": settings}  # fmt: skip
    optimizer.__class__ = type(base.__name__, (LocalSteps, base), body)
    if optimizer.built:
        take_variables(optimizer)
        optimizer._hvd_add_variables()
    return optimizer
