"""The gradient of each collective, once for all frameworks.

    allreduce       the same allreduce of the gradient
    allgather       the average of the gradients, of which each rank keeps its own rows
    broadcast       the average of the gradients on the root, zeros elsewhere
    alltoall        the alltoall back: the received splits become the splits
    reducescatter   the allgather of the gradient; times the number of members if the op was Sum

They are Horovod's: averages keep a gradient's size independent of the number of ranks. A gradient is computed by a
differentiable collective again, so that there are gradients of gradients.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from hvdlite import collectives as on_arrays
from hvdlite.adapter import engine
from hvdlite.adapter.collectives import Collectives
from hvdlite.adapter.engine import run_now
from hvdlite.adapter.framework import Tensor
from hvdlite.ops import Average, Sum
from hvdlite.process_sets import ProcessSet


@dataclass(frozen=True)
class _Rule:
    ops: Collectives
    name: str | None
    process_set: ProcessSet
    grouped: bool = False

    in_place = False
    constants = 0

    @property
    def gradient_name(self) -> str | None:
        # Not numbered automatically, because ranks may walk back through their graphs in different orders.
        return None if self.name is None else f"{self.name}.gradient"

    def _average(self, gradients: Sequence[Tensor]) -> tuple[Tensor, ...]:
        rule = Allreduce(self.ops, self.gradient_name, self.process_set, self.grouped, Average, 1.0, 1.0)
        return self.ops.framework.differentiable(rule, gradients)


@dataclass(frozen=True)
class Allreduce(_Rule):
    op: int = Average
    prescale: float = 1.0
    postscale: float = 1.0
    in_place: bool = False

    def forward(self, tensors: Sequence[Tensor]) -> tuple[Tensor, ...]:
        settled = (self.name, self.op, self.prescale, self.postscale, self.process_set)
        if self.grouped:
            pending = self.ops.grouped_allreduce(tensors, *settled, in_place=self.in_place)
            return tuple(run_now(pending))
        return (self.ops.allreduce(tensors[0], *settled, in_place=self.in_place, now=True),)

    def backward(self, gradients: Sequence[Tensor]) -> Sequence[Tensor]:
        rule = replace(self, name=self.gradient_name, in_place=False)
        return self.ops.framework.differentiable(rule, gradients)


@dataclass(frozen=True)
class Allgather(_Rule):
    lengths: tuple[int, ...] = ()  # this rank's rows of each tensor

    def forward(self, tensors: Sequence[Tensor]) -> tuple[Tensor, ...]:
        if self.grouped:
            return tuple(run_now(self.ops.grouped_allgather(tensors, self.name, self.process_set)))
        return (self.ops.allgather(tensors[0], self.name, self.process_set, now=True),)

    def backward(self, gradients: Sequence[Tensor]) -> Sequence[Tensor]:
        averages = self._average(gradients)
        name = None if self.name is None else f"{self.name}.lengths"
        everyones = on_arrays.allgather(np.array([self.lengths], np.int64), name, self.process_set)
        mine = _position(self.process_set)
        starts = everyones[:mine].sum(axis=0)
        rows = self.ops.framework.rows
        return [
            rows(average, int(start), length)
            for average, start, length in zip(averages, starts, self.lengths, strict=True)
        ]


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
    splits: list[int] | None = None
    splits_like: Any = None
    received: list[int] = field(default_factory=list)  # filled by forward(): what came from each rank goes back to it

    constants = 1  # the received splits

    def forward(self, tensors: Sequence[Tensor]) -> tuple[Tensor, ...]:
        output, received = self.ops.alltoall(
            tensors[0], self.splits, self.splits_like, self.name, self.process_set, now=True
        )
        self.received[:] = [int(n) for n in received]
        return output, received

    def backward(self, gradients: Sequence[Tensor]) -> Sequence[Tensor]:
        rule = Alltoall(self.ops, self.gradient_name, self.process_set, splits=self.received)
        return self.ops.framework.differentiable(rule, gradients[:1])[:1]


@dataclass(frozen=True)
class Reducescatter(_Rule):
    op: int = Average
    prescale: float = 1.0
    postscale: float = 1.0

    def forward(self, tensors: Sequence[Tensor]) -> tuple[Tensor, ...]:
        settled = (self.name, self.op, self.prescale, self.postscale, self.process_set)
        if self.grouped:
            return tuple(run_now(self.ops.grouped_reducescatter(tensors, *settled)))
        return (self.ops.reducescatter(tensors[0], *settled, now=True),)

    def backward(self, gradients: Sequence[Tensor]) -> Sequence[Tensor]:
        framework = self.ops.framework
        lengths = tuple(framework.shape(g)[0] for g in gradients)
        rule = Allgather(self.ops, self.gradient_name, self.process_set, self.grouped, lengths)
        factor = self.prescale * self.postscale
        if self.op == Sum:
            factor *= self.process_set.size() or 1
        whole = framework.differentiable(rule, gradients)
        return whole if factor == 1.0 else [framework.scaled(g, factor) for g in whole]


def _position(process_set: ProcessSet) -> int:
    """This rank's number among the members."""
    return process_set.rank() or 0
