"""The gradient of each collective, once for all frameworks.

    allreduce       the same allreduce of the gradient
    allgather       the average of the gradients, of which each rank keeps its own rows
    broadcast       the average of the gradients on the root, zeros elsewhere
    alltoall        the alltoall back: the received splits become the splits; zeros for rows that went nowhere
    reducescatter   the allgather of the gradient; times the number of members if the op was Sum

They are Horovod's: averages keep a gradient's size independent of the number of ranks. A gradient is computed by a
differentiable collective again, so that there are gradients of gradients.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from hvdlite.adapter import engine
from hvdlite.adapter.framework import Rule, Tensor
from hvdlite.ops import Average, Sum
from hvdlite.process_sets import ProcessSet


@dataclass(frozen=True)
class _Rule:
    ops: Any  # Collectives, or what builds the same as nodes of a graph
    name: str | None
    process_set: ProcessSet
    grouped: bool = False

    in_place = False
    constants = 0

    @property
    def gradient_name(self) -> str | None:
        # Not numbered automatically, because ranks may walk back through their graphs in different orders.
        return None if self.name is None else f"{self.name}.gradient"

    def differentiable(self, rule: Rule, tensors: Sequence[Tensor]) -> tuple[Tensor, ...]:
        return tuple(self.ops.framework.differentiable(rule, tensors))

    def _average(self, gradients: Sequence[Tensor]) -> tuple[Tensor, ...]:
        rule = Allreduce(self.ops, self.gradient_name, self.process_set, self.grouped, Average, 1.0, 1.0)
        return self.differentiable(rule, gradients)


@dataclass(frozen=True)
class Allreduce(_Rule):
    op: int = Average
    prescale: float = 1.0
    postscale: float = 1.0
    in_place: bool = False

    def forward(self, tensors: Sequence[Tensor]) -> tuple[Tensor, ...]:
        settled = (self.name, self.op, self.prescale, self.postscale, self.process_set)
        if self.grouped:
            return tuple(self.ops.grouped_allreduce(tensors, *settled, in_place=self.in_place, now=True))
        return (self.ops.allreduce(tensors[0], *settled, in_place=self.in_place, now=True),)

    def backward(self, gradients: Sequence[Tensor]) -> Sequence[Tensor]:
        rule = replace(self, name=self.gradient_name, in_place=False)
        return self.differentiable(rule, gradients)


@dataclass(frozen=True)
class Allgather(_Rule):
    lengths: tuple[Any, ...] = ()  # this rank's rows of each tensor

    def forward(self, tensors: Sequence[Tensor]) -> tuple[Tensor, ...]:
        if self.grouped:
            return tuple(self.ops.grouped_allgather(tensors, self.name, self.process_set, now=True))
        return (self.ops.allgather(tensors[0], self.name, self.process_set, now=True),)

    def backward(self, gradients: Sequence[Tensor]) -> Sequence[Tensor]:
        averages = self._average(gradients)
        name = None if self.name is None else f"{self.name}.lengths"
        starts = self.ops.starts(self.lengths, name, self.process_set)
        return list(map(self.ops.framework.rows, averages, starts, self.lengths))


@dataclass(frozen=True)
class Broadcast(_Rule):
    root: int = 0
    in_place: bool = False

    def forward(self, tensors: Sequence[Tensor]) -> tuple[Tensor, ...]:
        result = self.ops.broadcast(
            tensors[0], self.root, self.name, self.process_set, in_place=self.in_place, now=True
        )
        return (result,)

    def backward(self, gradients: Sequence[Tensor]) -> Sequence[Tensor]:
        averages = self._average(gradients)
        return averages if engine.rank() == self.root else [self.ops.framework.scaled(a, 0.0) for a in averages]


@dataclass(frozen=True)
class Alltoall(_Rule):
    splits: Any = None
    splits_like: Any = None
    way_back: list[Any] = field(default_factory=list)  # filled by forward(): the splits of the way back, and its rows

    constants = 1  # the received splits

    def forward(self, tensors: Sequence[Tensor]) -> tuple[Tensor, ...]:
        output, received = self.ops.alltoall(
            tensors[0], self.splits, self.splits_like, self.name, self.process_set, now=True
        )
        self.way_back[:] = [self.ops.as_splits(received), self.ops.length(tensors[0])]
        return output, received

    def backward(self, gradients: Sequence[Tensor]) -> Sequence[Tensor]:
        splits, rows = self.way_back
        rule = Alltoall(self.ops, self.gradient_name, self.process_set, splits=splits)
        back = self.differentiable(rule, gradients[:1])[0]
        return [self.ops.framework.lengthened(back, rows)]


@dataclass(frozen=True)
class Reducescatter(_Rule):
    op: int = Average
    prescale: float = 1.0
    postscale: float = 1.0

    def forward(self, tensors: Sequence[Tensor]) -> tuple[Tensor, ...]:
        settled = (self.name, self.op, self.prescale, self.postscale, self.process_set)
        if self.grouped:
            return tuple(self.ops.grouped_reducescatter(tensors, *settled, now=True))
        return (self.ops.reducescatter(tensors[0], *settled, now=True),)

    def backward(self, gradients: Sequence[Tensor]) -> Sequence[Tensor]:
        framework = self.ops.framework
        lengths = tuple(self.ops.length(g) for g in gradients)
        rule = Allgather(self.ops, self.gradient_name, self.process_set, self.grouped, lengths)
        factor = self.prescale * self.postscale
        if self.op == Sum:
            factor *= self.process_set.size() or 1
        whole = self.differentiable(rule, gradients)
        return whole if factor == 1.0 else [framework.scaled(g, factor) for g in whole]
