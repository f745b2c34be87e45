"""LocalSGD and DiLoCo where a step is a function of values and may be compiled (JAX, Keras): counts
a step, averages what is due, and sync()."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from hvdlite.adapter import names
from hvdlite.adapter.agreement import drift
from hvdlite.adapter.at_once.primitives import Backend
from hvdlite.adapter.at_once.reduction import Gradients, reduced, reduced_if
from hvdlite.adapter.local import schedule
from hvdlite.adapter.local.outer import Outer
from hvdlite.adapter.local.outer import step as outer_step
from hvdlite.adapter.local.schedule import Count, Number, Plan
from hvdlite.adapter.step import Options
from hvdlite.base.ops import Average, Sum
from hvdlite.core.process_sets import ProcessSet

Tensor = Any
Cell = Any  # has a `value`, a tensor, and assign(), which replaces it: Keras' variables do


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


def settings_of(
    plan: Plan, outer: Outer | None, averages_state: bool, process_set: ProcessSet
) -> Settings:
    """`fixed_names`: a rank's average by time may meet another rank's sync()."""
    options = Options(Sum, 1.0, 1.0, process_set=process_set, scope=f"{names.scope()}local.",
                      fixed_names=plan.is_timed)  # fmt: skip
    return Settings(plan, outer, averages_state, options)


class Averager(ABC):
    """What a rank trains with, in the course of a step or of sync(). A framework brings the
    abstract methods."""

    ops: Any  # jax.numpy or keras.ops
    knows_loss = False  # whether the ranks' losses travel with an average

    def __init__(self, settings: Settings, backend: Backend, weights: Sequence[Cell],
                 state: Sequence[Cell], outer: Sequence[tuple[Cell, Cell]]) -> None:  # fmt: skip
        self.settings, self.plan = settings, settings.plan
        self.weights = weights
        self._state = state  # of the optimizer
        self._outer = outer  # anchors and velocities of DiLoCo
        self._backend = backend

    @property
    @abstractmethod
    def count(self) -> Count: ...

    @abstractmethod
    def keep(self, count: Count) -> None:
        """The next `count`."""

    @abstractmethod
    def sizes(self) -> list[int]:
        """How large each of the weights is, for fragments of about the same size."""

    @abstractmethod
    def cast(self, value: Any, dtype: Any) -> Tensor:
        """A tensor or a number, as a tensor of the dtype."""

    @abstractmethod
    def when(self, condition: Any, change: Callable[[], None]) -> None:
        """Calls `change`, which may assign to all cells, if the condition is true."""

    # ---- what happens

    def gradients(self, own: Sequence[Tensor | None], variables: Sequence[Any]) -> Gradients:
        """Before a step: those of all ranks, as long as steps are synchronous."""
        plan, how = self.plan, (self.settings.gradients, self._backend, own, variables)
        if plan.never_synchronous or not self.settings.options.takes_part():
            return list(own)
        if plan.always_synchronous:
            return reduced(*how)
        return reduced_if(schedule.is_synchronous(plan, self.count), *how)

    def now(self) -> Number:
        return self._backend.seconds() if self.plan.is_timed else 0.0

    def stepped(self, samples: Number = 1.0, loss: Number = 0.0) -> None:
        """After a step of the optimizer: counts it, and averages what is due."""
        plan, ops, now = self.plan, self.ops, self.now()
        count = schedule.stepped(plan, self.count, now, ops, samples, loss)
        self.keep(count)
        if plan.always_synchronous or not self.settings.options.takes_part():
            return
        if not plan.is_cut:
            self.when(schedule.is_due(plan, count, now), self._average)
            return
        for fragment, start in enumerate(schedule.starts(plan)):
            self.when(ops.equal(count.since, float(start)), partial(self._average, fragment))
        since = ops.where(ops.equal(count.since, float(plan.every)), 0.0, count.since)
        self.keep(count._replace(since=since))

    def sync(self) -> None:
        """Averages all weights; by time, until all ranks are in sync()."""
        if not self.plan.is_timed:
            return self._average()
        here = 0.0
        while here < (self.settings.options.process_set.size() or 1):
            here = float(self._averaged(is_sync=True))
        if self._outer:
            self._level()
        return None

    def _level(self) -> None:
        """A compiled program rounds otherwise than sync(), and a slower rank may have been in the
        one when others were in the other."""
        kept = [cell for pair in self._outer for cell in pair]
        values = [cell.value for cell in kept]
        means = reduced(self.settings.gradients, self._backend, values, kept)
        for cell, mean in zip(kept, means, strict=True):
            cell.assign(mean)
        for weight, (anchor, _) in zip(self.weights, self._outer, strict=True):
            if _is_float(weight):
                weight.assign(self.ops.copy(anchor.value))

    def _average(self, fragment: int | None = None) -> None:
        self._averaged(fragment)

    def _averaged(self, fragment: int | None = None, is_sync: bool = False) -> Number:
        """Averages a fragment, or everything: then a new interval begins. Returns how many ranks
        were in sync()."""
        outer, count = self.settings.outer, self.count
        chosen = [i for i in self._of(fragment) if _is_float(self.weights[i])]
        cells = [self.weights[i] for i in chosen]
        pairs = [self._outer[i] for i in chosen] if outer else []
        if self.settings.averages_state:
            cells += self._memory()
        sent = [cell.value for cell in cells]
        if outer:
            sent = [anchor.value - value for (anchor, _), value in zip(pairs, sent, strict=True)]
        means, loss, in_sync = self._means(sent, count, is_sync)
        if outer:
            for i, (anchor, velocity) in enumerate(pairs):
                means[i], moved = outer_step(
                    outer, anchor.value, means[i], velocity.value, self.ops
                )
                # in memory of its own: a compiled step of JAX takes no array for two
                anchor.assign(self.ops.copy(means[i]))
                velocity.assign(moved)
        for cell, mean in zip(cells, means, strict=True):
            cell.assign(mean)
        if fragment is None:
            self.keep(schedule.averaged(self.plan, count, loss, self.now(), self.ops))
        return in_sync

    def _of(self, fragment: int | None) -> range:
        """The numbers of the weights of a fragment."""
        if fragment is None:
            return range(len(self.weights))
        return drift.cuts(self.sizes(), self.plan.fragments)[fragment]

    def _memory(self) -> list[Cell]:
        """What the optimizer remembers of gradients."""
        shapes = {tuple(weight.value.shape) for weight in self.weights} - {()}
        return [
            each for each in self._state if _is_float(each) and tuple(each.value.shape) in shapes
        ]

    def _means(
        self, sent: Sequence[Tensor], count: Count, is_sync: bool
    ) -> tuple[list[Tensor], Number, Number]:
        """Of what all ranks send, by their shares; the mean loss; how many ranks are in sync()."""
        ops, share = self.ops, schedule.share(self.plan, count, self.ops)
        numbers = [share, float(is_sync)]
        if self.knows_loss:
            numbers.append(share * schedule.mean_loss(count, ops))
        wide = [_wide(each.dtype) for each in sent]
        if self.plan.is_timed:
            weighed = [self.cast(each, dtype) * self.cast(share, dtype)
                       for each, dtype in zip(sent, wide, strict=True)]  # fmt: skip
        else:
            weighed = list(sent)
        weighed.append(ops.stack([self.cast(number, "float32") for number in numbers]))
        sums = self._backend.allreduce([dict(enumerate(weighed))], self.settings.options)
        numbers = sums[len(sent)]
        means = [
            self.cast(self.cast(sums[i], wide[i]) / self.cast(numbers[0], wide[i]), each.dtype)
            for i, each in enumerate(sent)
        ]
        return means, numbers[2] / numbers[0] if self.knows_loss else 0.0, numbers[1]


def _is_float(cell: Cell) -> bool:
    return "float" in str(cell.value.dtype)


def _wide(dtype: Any) -> Any:
    """Of 16 bits, a weight times many samples would be infinite."""
    return dtype if "float64" in str(dtype) else "float32"
