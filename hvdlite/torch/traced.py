"""Collectives as operators of torch: torch.ops.hvdlite.*, for torch.compile(fullgraph=True).

The functions of hvdlite.torch.ops use them while they are compiled. They are functional and
blocking. Shapes must be known while compiling: allgather assumes that all ranks have equally many
rows, and raises if they have not.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch

from hvdlite.base.operations import GATHERED, OPERATIONS, SHARED, Operation
from hvdlite.core import engine
from hvdlite.core.collectives import Collectives
from hvdlite.core.framework import Common
from hvdlite.core.gradients import Rule
from hvdlite.core.operations import Call, equal_starts, keeps_input
from hvdlite.core.process_sets import ProcessSet, global_process_set, set_id_of
from hvdlite.torch.framework import FRAMEWORK

# The low-level kind: torch.library.custom_op costs 9 us a call.
_library: Any = torch.library.Library("hvdlite", "DEF")  # type: ignore[no-untyped-call]
AVAILABLE = hasattr(torch.library, "register_fake") and hasattr(torch.library, "register_autograd")

# A Call's fields, as far as an operator takes them. `rows`: those of the results, where the input's
# do not tell.
_SIGNATURE = (
    "(Tensor[] x, SymInt[]? rows, str? name, int process_set, int op, float prescale, float "
    "postscale, int root, bool grouped) -> Tensor[]"
)


def emit(call: Call, tensors: Sequence[torch.Tensor], rows: Any = None) -> list[torch.Tensor]:
    """The call as an operator of the program that is being compiled; an alltoall without its
    received splits."""
    operator = getattr(torch.ops.hvdlite, call.operation.name)
    how = (call.op, float(call.prescale), float(call.postscale), call.root, call.grouped)
    results: list[torch.Tensor] = operator(
        list(tensors), rows, call.name, set_id_of(call.process_set), *how
    )
    return results


def _call(
    operation: Operation, name: str | None, process_set: int, op: int, prescale: float,
    postscale: float, root: int, grouped: bool,
) -> Call:  # fmt: skip
    return Call(operation, name, _set(process_set), op, prescale, postscale, root, grouped=grouped)


def _set(number: int) -> ProcessSet:
    if number == 0:
        return global_process_set
    process_set = ProcessSet(engine.ranks_of(number))
    process_set.process_set_id = number
    return process_set


# ---- What an operator does


_OPS = Collectives(FRAMEWORK)


def _run(
    operation: Operation, x: list[torch.Tensor], rows: list[int] | None, *how: Any
) -> list[torch.Tensor]:
    call = _call(operation, *how)
    results = list(_OPS.run(call, x))[: len(x)]
    if keeps_input(operation, call.root):
        return [tensor.clone() for tensor in x]  # an operator may not return what it was given
    if operation.result is GATHERED:
        for result, expected in zip(results, rows or _rows(call, x), strict=True):
            if result.shape[0] != expected:
                raise ValueError(
                    f"allgather inside torch.compile got {result.shape[0]} rows instead of "
                    f"{expected}: in a compiled region all ranks must have equally many. Leave "
                    "allgather out of the region."
                )
    return results


# ---- The shapes of its results


def _fake(
    operation: Operation, x: list[torch.Tensor], rows: list[Any] | None, *how: Any
) -> list[torch.Tensor]:
    if operation.result not in (GATHERED, SHARED):
        return [tensor.new_empty(tensor.shape) for tensor in x]
    counts = rows or _rows(_call(operation, *how), x)
    return [
        tensor.new_empty((count, *tensor.shape[1:]))
        for tensor, count in zip(x, counts, strict=True)
    ]


def _rows(call: Call, x: list[torch.Tensor]) -> list[Any]:
    """The rows of each result, if all ranks have as many as this one."""
    ranks = engine.ranks_of(set_id_of(call.process_set))
    members, position = len(ranks), ranks.index(engine.rank())
    own = [tensor.shape[0] for tensor in x]
    if call.operation.result is GATHERED:
        return [rows * members for rows in own]
    return [rows // members + (1 if position < rows % members else 0) for rows in own]


# ---- Its gradient: the rules of hvdlite/core/gradients.py, with shapes that are known


class _TracedFramework(Common):
    """The primitives that those rules need."""

    def rows(self, tensor: torch.Tensor, start: int, count: int) -> torch.Tensor:
        return tensor.narrow(0, start, count).clone()

    def lengthened(self, tensor: torch.Tensor, rows: Any) -> torch.Tensor:
        return tensor  # all ranks have equally many

    def differentiable(self, rule: Rule, tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        return emit(rule.call, tensors, rule.result_rows)


class _TracedCollectives:
    framework = _TracedFramework()

    def starts(
        self, lengths: Sequence[Any], name: str | None, process_set: ProcessSet
    ) -> list[Any]:
        return equal_starts(lengths, process_set)


def _keep(operation: Operation, ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    x, _, *how = inputs
    ctx.rule = Rule(_TracedCollectives(), _call(operation, *how))
    ctx.rule.rows = [tensor.shape[0] if tensor.dim() else 0 for tensor in x]
    ctx.constants = len(inputs) - 1


def _backward(ctx: Any, gradients: list[torch.Tensor]) -> Any:
    return list(ctx.rule.backward(gradients)), *[None] * ctx.constants


def _define(operation: Operation) -> None:
    name = operation.name
    _library.define(name + _SIGNATURE)
    _library.impl(name, partial(_run, operation), "CompositeExplicitAutograd")
    torch.library.register_fake(f"hvdlite::{name}", partial(_fake, operation), lib=_library)
    setup = partial(_keep, operation)
    torch.library.register_autograd(
        f"hvdlite::{name}", _backward, setup_context=setup, lib=_library
    )


if AVAILABLE:
    for _operation in OPERATIONS:
        _define(_operation)


def _never() -> bool:
    return False


#: Whether the caller is being compiled, so that the operators above have to be used.
is_compiling = getattr(torch.compiler, "is_compiling", _never) if AVAILABLE else _never

#: A decorator: torch.compile leaves the function out of its graphs, without a word.
never_compiled: Any = torch.compiler.disable
