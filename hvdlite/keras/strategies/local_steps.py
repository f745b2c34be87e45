"""LocalSGD and DiLoCo: the user's Keras optimizer, whose ranks make steps of their own and average
weights from time to time.

Counts, anchors and velocities are variables of the optimizer, so that files, broadcasts and elastic
states have them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from hvdlite.adapter import names
from hvdlite.adapter.agreement import drift
from hvdlite.adapter.at_once.reduction import reduced
from hvdlite.adapter.local import schedule
from hvdlite.adapter.local.outer import Outer, OuterSGD
from hvdlite.adapter.local.outer import step as outer_step
from hvdlite.adapter.local.schedule import Count, Plan
from hvdlite.adapter.step import Options
from hvdlite.base.ops import Average, Sum
from hvdlite.core.process_sets import ProcessSet, global_process_set
from hvdlite.keras import backends
from hvdlite.keras.flavour import KERAS, LEGACY, backend_name
from hvdlite.keras.host import prepared, to_numpy
from hvdlite.keras.strategies.conditions import reduced_if, seconds, when
from hvdlite.keras.wrapping import (
    refuse_inside_loss_scaling,
    refuse_other_variables,
    refuse_twice,
    with_loss_scaling,
)

_NUMBERS = len(Count._fields)
_SHARES = -1  # the number of the tensor with the ranks' shares and losses


@dataclass(frozen=True)
class Settings:
    """What a program asks for."""

    plan: Plan
    outer: Outer | None  # None for LocalSGD, which takes the average as it is
    averages_state: bool
    options: Options  # of sums

    @property
    def gradients(self) -> Options:
        return replace(self.options, op=Average)

    def inside_loss_scaling(self) -> tuple[str, str]:
        """The optimizer's name, and what to write instead."""
        name = "LocalSGD" if self.outer is None else "DiLoCo"
        around = f"hvd.{name}(keras.optimizers.LossScaleOptimizer(optimizer), ...)"
        return name, f"Wrap it the other way round:\n    {around}"


class LocalSteps:
    """What LocalSGD and DiLoCo add to the class of a Keras 3 optimizer."""

    # Of the class, so that what from_config() makes of it has it as well.
    _hvd_settings: Settings
    _hvd_inside = False
    _hvd_count: Any = None
    _hvd_outer: Sequence[tuple[Any, Any]] = ()  # anchors and velocities

    # ---- what Keras calls

    def build(self, variables: Sequence[Any]) -> None:
        """Makes the optimizer's variables."""
        refuse_inside_loss_scaling(*self._hvd_settings.inside_loss_scaling())
        super().build(variables)  # type: ignore[misc]
        self._hvd_add_variables()

    def apply(self, grads: Sequence[Any], trainable_variables: Sequence[Any] | None = None) -> None:
        """One step of this rank, and an average of the weights if it is time."""
        if self._hvd_inside or len(grads) == 0:
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
        with self._hvd_handed_on():
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
        plan, process_set = self._hvd_settings.plan, self._hvd_settings.options.process_set
        if not self._hvd_takes_part() or plan.always_synchronous:
            return
        here = self._hvd_average(None, is_sync=True)
        while plan.is_timed and float(to_numpy(here)) < (process_set.size() or 1):
            here = self._hvd_average(None, is_sync=True)
        if plan.is_timed and self._hvd_outer:
            self._hvd_level()

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
        settings, plan = self._hvd_settings, self._hvd_settings.plan
        begun = self._hvd_count.value[0] > 0.0
        now = seconds() if plan.is_timed else 0.0
        first = KERAS.ops.cast(KERAS.ops.stack(list(schedule.begin(plan, now))), "float32")
        self._hvd_count.assign(KERAS.ops.where(begun, self._hvd_count.value, first))
        if settings.outer is not None:
            when(KERAS.ops.logical_not(begun), self._hvd_anchor, self._hvd_variables())
        if plan.never_synchronous or not self._hvd_takes_part():
            return list(gradients)
        if plan.always_synchronous:
            return reduced(settings.gradients, backends.chosen(), gradients, variables)
        condition = schedule.is_synchronous(plan, self._hvd_numbers())
        return reduced_if(condition, settings.gradients, gradients, variables)

    def _hvd_after(self) -> None:
        """Counts, and averages what is due."""
        plan, ops = self._hvd_settings.plan, KERAS.ops
        now = seconds() if plan.is_timed else 0.0
        count = schedule.stepped(plan, self._hvd_numbers(), now, ops)
        self._hvd_keep(count)
        if plan.always_synchronous or not self._hvd_takes_part():
            return

        def average(fragment: int | None = None) -> None:
            self._hvd_average(fragment)

        if not plan.is_cut:
            when(schedule.is_due(plan, count, now), average, self._hvd_variables())
            return
        for fragment, start in enumerate(schedule.starts(plan)):
            is_due = ops.equal(count.since, float(start))
            when(is_due, partial(average, fragment), self._hvd_variables())
        since = ops.where(ops.equal(count.since, float(plan.every)), 0.0, count.since)
        self._hvd_keep(count._replace(since=since))

    def _hvd_average(self, fragment: int | None, is_sync: bool = False) -> Any:
        """None: all fragments, and a new interval begins. How many ranks were in sync()."""
        settings, plan = self._hvd_settings, self._hvd_settings.plan
        count = self._hvd_numbers()
        share = schedule.share(plan, count, KERAS.ops)
        chosen_ones = self._hvd_of(fragment)
        trained: Sequence[Any] = self._trainable_variables  # type: ignore[attr-defined]
        targets = [trained[i] for i in chosen_ones]
        if settings.averages_state:
            targets += self._hvd_memory()
        sent = [target.value for target in targets]
        if settings.outer is not None:
            sent = [self._hvd_outer[i][0].value - value
                    for i, value in zip(chosen_ones, sent, strict=True)]  # fmt: skip
        means, here = self._hvd_means(sent, share, is_sync)
        for number, (target, mean) in enumerate(zip(targets, means, strict=True)):
            if settings.outer is not None:
                anchor, velocity = self._hvd_outer[chosen_ones[number]]
                mean, moved = outer_step(
                    settings.outer, anchor.value, mean, velocity.value, KERAS.ops
                )
                anchor.assign(_apart(mean))
                velocity.assign(moved)
            target.assign(mean)
        if fragment is None:
            now = seconds() if plan.is_timed else 0.0
            self._hvd_keep(count._replace(since=0.0, samples=0.0, at=now))
        return here

    def _hvd_level(self) -> None:
        """A compiled program rounds otherwise than sync(), and a slower rank may have been in the
        one when others were in the other."""
        kept = [variable for pair in self._hvd_outer for variable in pair]
        values = [variable.value for variable in kept]
        means = reduced(self._hvd_settings.gradients, backends.chosen(), values, kept)
        for variable, mean in zip(kept, means, strict=True):
            variable.assign(mean)
        for variable, (anchor, _) in zip(self._trainable_variables, self._hvd_outer, strict=True):  # type: ignore[attr-defined]
            variable.assign(_apart(anchor.value))

    def _hvd_means(self, sent: Sequence[Any], share: Any, is_sync: bool) -> tuple[list[Any], Any]:
        """Of what all ranks send, by their shares; and how many ranks are in sync()."""
        ops = KERAS.ops
        group = dict(enumerate(sent))
        if self._hvd_settings.plan.is_timed:
            group = {i: ops.cast(value, "float32") * share for i, value in group.items()}
        share = ops.cast(ops.convert_to_tensor(share), "float32")
        group[_SHARES] = ops.stack([share, ops.convert_to_tensor(float(is_sync), "float32")])
        sums = backends.chosen().allreduce([group], self._hvd_settings.options)
        total, here = sums[_SHARES][0], sums[_SHARES][1]
        means = [
            ops.cast(sums[i] / ops.cast(total, sums[i].dtype), value.dtype)
            for i, value in enumerate(sent)
        ]
        return means, here

    # ---- what there is

    def _hvd_takes_part(self) -> bool:
        return self._hvd_settings.options.takes_part()

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
            anchor.assign(_apart(variable.value))

    def _hvd_numbers(self) -> Count:
        return Count(*(self._hvd_count.value[i] for i in range(_NUMBERS)))

    def _hvd_keep(self, count: Count) -> None:
        numbers = [KERAS.ops.cast(number, "float32") for number in count]
        self._hvd_count.assign(KERAS.ops.stack(numbers))

    def _hvd_of(self, fragment: int | None) -> list[int]:
        """The numbers of the trainable variables of a fragment."""
        trained = self._trainable_variables  # type: ignore[attr-defined]
        if fragment is None:
            return list(range(len(trained)))
        sizes = [int(np.prod(variable.shape)) for variable in trained]
        return list(drift.cuts(sizes, self._hvd_settings.plan.fragments)[fragment])

    def _hvd_memory(self) -> list[Any]:
        """What the optimizer remembers of gradients."""
        optimizer: Any = getattr(self, "inner_optimizer", self)
        shapes = {tuple(v.shape) for v in self._trainable_variables if len(v.shape)}  # type: ignore[attr-defined]
        own = {id(self._hvd_count)}
        return [
            v for v in optimizer.variables
            if tuple(v.shape) in shapes and id(v) not in own and "float" in str(v.dtype)
        ]  # fmt: skip

    def _hvd_variables(self) -> list[Any]:
        return [*self._trainable_variables, *self.variables]  # type: ignore[attr-defined]

    # ---- without state, on JAX

    @contextlib.contextmanager
    def _hvd_handed_on(self) -> Iterator[None]:
        object.__setattr__(self, "_hvd_inside", True)
        try:
            yield
        finally:
            object.__setattr__(self, "_hvd_inside", False)

    def _hvd_scope(self, state: Sequence[Any], weights: Sequence[Any]) -> Any:
        values = [*weights, *state]
        mapping = list(zip(self._hvd_variables(), values, strict=True))
        return KERAS.StatelessScope(state_mapping=mapping)

    def _hvd_values(self, scope: Any) -> tuple[list[Any], list[Any]]:
        trained = self._trainable_variables  # type: ignore[attr-defined]
        weights = [scope.get_current_value(variable) for variable in trained]
        return weights, [scope.get_current_value(v) for v in self.variables]  # type: ignore[attr-defined]


def _apart(value: Any) -> Any:
    """In memory of its own: on JAX a variable has what it was assigned, and a compiled step takes
    no array for two variables."""
    return KERAS.ops.copy(value) if backend_name() == "jax" else value


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
    options = Options(
        Sum, 1.0, 1.0, process_set=process_set, scope=f"{names.scope()}local.",
        fixed_names=plan.is_timed,  # a rank's average may meet another rank's sync()
    )  # fmt: skip
    refuse_twice(optimizer)
    options.takes_part()  # says that hvd.init() is missing
    backends.chosen()  # loaded now, and not while a step is being traced
    optimizer = with_loss_scaling(optimizer)
    settings = Settings(plan, outer, averages_state, options)
    base = type(optimizer)
    body = {"__module__": base.__module__, "__qualname__": base.__qualname__,
            "__doc__": base.__doc__, "_hvd_settings": settings}  # fmt: skip
    optimizer.__class__ = type(base.__name__, (LocalSteps, base), body)
    if optimizer.built:
        optimizer._hvd_add_variables()
    return optimizer
