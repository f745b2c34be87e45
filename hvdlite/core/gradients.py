"""The gradient of each collective, once for all frameworks.

    allreduce       the same allreduce of the gradient
    allgather       the average of the gradients, of which each rank keeps its own rows
    broadcast       the average of the gradients on the root, zeros elsewhere
    alltoall        the alltoall back: the received splits become the splits; zeros for rows that
                    went nowhere
    reducescatter   the allgather of the gradient; times the number of members if the op was Sum
    reduce          the broadcast of the root's gradient, in the same way; other ranks, which keep
                    their tensor, add their own

They are Horovod's: averages keep a gradient's size independent of the number of ranks. A gradient
is computed by a differentiable collective again, so that there are gradients of gradients.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from hvdlite.base.operations import (
    ALLGATHER,
    ALLREDUCE,
    ALLTOALL,
    BROADCAST,
    EXCHANGED,
    REDUCE,
    REDUCESCATTER,
    SAME,
    Operation,
)
from hvdlite.base.ops import Average, Sum
from hvdlite.core import engine
from hvdlite.core.framework import Tensor
from hvdlite.core.operations import Call, keeps_input


class Rule:
    """A call that can be differentiated: how its results come about, and what their gradients
    become.

    `ops` is a Collectives, or what builds the same as nodes of a graph.
    """

    def __init__(self, ops: Any, call: Call, result_rows: Sequence[Any] | None = None) -> None:
        self.ops = ops
        self.call = call
        self.result_rows = result_rows  # of each result, where they are known beforehand
        self.rows: list[Any] = []  # of each tensor, if the result has others
        self.splits: Any = None  # of the alltoall back

    @property
    def in_place(self) -> bool:
        return self.call.in_place

    @property
    def constants(self) -> int:
        """How many of the last results have no gradient: an alltoall's received splits have
        none."""
        return int(self.call.operation.result is EXCHANGED)

    def forward(self, tensors: Sequence[Tensor]) -> tuple[Tensor, ...]:
        results: tuple[Tensor, ...] = self.ops.run(self.call, tensors)
        if self.call.operation.result is not SAME:
            self.rows = [self.ops.length(tensor) for tensor in tensors]
        if self.constants:
            self.splits = self.ops.as_splits(results[1])
        return tuple(tensors) if keeps_input(self.call.operation, self.call.root) else results

    def backward(self, gradients: Sequence[Tensor]) -> Sequence[Tensor]:
        return _BACKWARD[self.call.operation](self, gradients)

    def run_gradient(
        self,
        operation: Operation,
        gradients: Sequence[Tensor],
        rows: Sequence[Any] | None = None,
        **how: Any,
    ) -> Sequence[Tensor]:
        """Another operation on the gradients, differentiable, with the name, the process set and
        the grouping of this one.

        `rows`: those of the results, if they are known.
        """
        # Not numbered automatically, because ranks may walk back through their graphs in different
        # orders.
        name = None if self.call.name is None else f"{self.call.name}.gradient"
        call = Call(operation, name, self.call.process_set, grouped=self.call.grouped, **how)
        results: Sequence[Tensor] = self.ops.framework.differentiable(
            Rule(self.ops, call, rows), gradients
        )
        return results


def _of_allreduce(rule: Rule, gradients: Sequence[Tensor]) -> Sequence[Tensor]:
    call = rule.call
    return rule.run_gradient(
        ALLREDUCE, gradients, op=call.op, prescale=call.prescale, postscale=call.postscale
    )


def _of_allgather(rule: Rule, gradients: Sequence[Tensor]) -> Sequence[Tensor]:
    averages = rule.run_gradient(ALLREDUCE, gradients, op=Average)
    name = None if rule.call.name is None else f"{rule.call.name}.lengths"
    starts = rule.ops.starts(rule.rows, name, rule.call.process_set)
    return list(map(rule.ops.framework.rows, averages, starts, rule.rows))


def _of_broadcast(rule: Rule, gradients: Sequence[Tensor]) -> Sequence[Tensor]:
    averages = rule.run_gradient(ALLREDUCE, gradients, op=Average)
    if engine.rank() == rule.call.root:
        return averages
    return [rule.ops.framework.scaled(average, 0.0) for average in averages]


def _of_alltoall(rule: Rule, gradients: Sequence[Tensor]) -> Sequence[Tensor]:
    back = rule.run_gradient(ALLTOALL, gradients[:1], splits=rule.splits)[0]
    return [rule.ops.framework.lengthened(back, rule.rows[0])]


def _of_reducescatter(rule: Rule, gradients: Sequence[Tensor]) -> Sequence[Tensor]:
    return _scaled(rule, rule.run_gradient(ALLGATHER, gradients, rule.rows))


def _of_reduce(rule: Rule, gradients: Sequence[Tensor]) -> Sequence[Tensor]:
    roots = _scaled(rule, rule.run_gradient(BROADCAST, gradients, root=rule.call.root))
    if engine.rank() == rule.call.root:
        return roots
    return [root + own for root, own in zip(roots, gradients, strict=True)]


def _scaled(rule: Rule, results: Sequence[Tensor]) -> Sequence[Tensor]:
    """By the factors that the operation has applied, once for each member that it has added."""
    call = rule.call
    factor = call.prescale * call.postscale
    if call.op == Sum:
        factor *= call.process_set.size() or 1
    return (
        results
        if factor == 1.0
        else [rule.ops.framework.scaled(result, factor) for result in results]
    )


_BACKWARD: dict[Operation, Callable[[Rule, Sequence[Tensor]], Sequence[Tensor]]] = {
    ALLREDUCE: _of_allreduce,
    ALLGATHER: _of_allgather,
    BROADCAST: _of_broadcast,
    ALLTOALL: _of_alltoall,
    REDUCESCATTER: _of_reducescatter,
    REDUCE: _of_reduce,
}
