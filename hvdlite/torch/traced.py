"""Collectives as operators of torch: torch.ops.hvdlite.*, for torch.compile(fullgraph=True).

The functions of hvdlite.torch.ops turn to them while they are compiled. They are functional and blocking. Shapes must be
known while compiling: allgather takes it that all ranks have equally many rows, and says so if they have not.
"""

from __future__ import annotations

from typing import Any

import torch

from hvdlite.adapter import engine
from hvdlite.adapter.collectives import Collectives
from hvdlite.ops import Average, Sum
from hvdlite.process_sets import ProcessSet, global_process_set
from hvdlite.torch.framework import FRAMEWORK

_OPS = Collectives(FRAMEWORK)
# The low-level kind: torch.library.custom_op costs 9 us a call.
_library: Any = torch.library.Library("hvdlite", "DEF")  # type: ignore[no-untyped-call]
AVAILABLE = hasattr(torch.library, "register_fake") and hasattr(torch.library, "register_autograd")


def _set(number: int) -> ProcessSet:
    if number == 0:
        return global_process_set
    process_set = ProcessSet(engine.ranks_of(number))
    process_set.process_set_id = number
    return process_set


def _position(number: int) -> tuple[int, int]:
    """This rank's number in the set, and how many members it has."""
    members = engine.ranks_of(number)
    return members.index(engine.rank()), len(members)


def members(number: int) -> int:
    """How many a process set has, for code that is being compiled. By number: torch 2.5 takes no objects here."""
    return len(engine.ranks_of(number))


# What torch.compiler.assume_constant_result does, after a second in which it imports the compiler.
members._dynamo_marked_constant = True  # type: ignore[attr-defined]


def _own_rows(rows: Any, number: int) -> Any:
    mine, members = _position(number)
    return rows // members + (1 if mine < rows % members else 0)


# ---- what they do


def _allreduce(x: torch.Tensor, op: int, prescale: float, postscale: float, process_set: int, name: str | None) -> Any:
    return _OPS.allreduce(x, name, op, prescale, postscale, _set(process_set), now=True)


def _grouped_allreduce(
    x: list[torch.Tensor], op: int, prescale: float, postscale: float, process_set: int, name: str | None
) -> list[torch.Tensor]:
    return list(_OPS.grouped_allreduce(x, name, op, prescale, postscale, _set(process_set), now=True))


def _allgather(x: torch.Tensor, rows: int, process_set: int, name: str | None) -> Any:
    result = _OPS.allgather(x, name, _set(process_set), now=True)
    _check_rows(result, rows)
    return result


def _check_rows(result: torch.Tensor, rows: int) -> None:
    if result.shape[0] != rows:
        raise ValueError(
            f"allgather inside torch.compile: {result.shape[0]} rows came together, but {rows} were expected: there all "
            "ranks must have equally many. Leave it out of the compiled region."
        )


def _grouped_allgather(x: list[torch.Tensor], rows: list[int], process_set: int, name: str | None) -> Any:
    results = list(_OPS.grouped_allgather(x, name, _set(process_set), now=True))
    for result, expected in zip(results, rows, strict=True):
        _check_rows(result, expected)
    return results


def _broadcast(x: torch.Tensor, root: int, process_set: int, name: str | None) -> Any:
    return _OPS.broadcast(x, root, name, _set(process_set), now=True)


def _alltoall(x: torch.Tensor, process_set: int, name: str | None) -> Any:
    return _OPS.alltoall(x, None, None, name, _set(process_set), now=True)[0]


def _reducescatter(
    x: torch.Tensor, op: int, prescale: float, postscale: float, process_set: int, name: str | None
) -> Any:
    return _OPS.reducescatter(x, name, op, prescale, postscale, _set(process_set), now=True)


def _grouped_reducescatter(
    x: list[torch.Tensor], op: int, prescale: float, postscale: float, process_set: int, name: str | None
) -> list[torch.Tensor]:
    return list(_OPS.grouped_reducescatter(x, name, op, prescale, postscale, _set(process_set), now=True))


# ---- their gradients: the rules of hvdlite/adapter/gradients.py, with shapes that are known


def _gradient_name(name: str | None) -> str | None:
    return None if name is None else f"{name}.gradient"


def _keep(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    x, *ctx.how = inputs
    tensors = [x] if isinstance(x, torch.Tensor) else x
    ctx.rows = [tensor.shape[0] if tensor.dim() else 0 for tensor in tensors]


def _of_allreduce(ctx: Any, gradient: torch.Tensor) -> Any:
    *how, name = ctx.how
    return (torch.ops.hvdlite.allreduce(gradient, *how, _gradient_name(name)), *[None] * 5)


def _of_grouped_allreduce(ctx: Any, gradients: list[torch.Tensor]) -> Any:
    *how, name = ctx.how
    return (torch.ops.hvdlite.grouped_allreduce(gradients, *how, _gradient_name(name)), *[None] * 5)


def _average(gradient: torch.Tensor, process_set: int, name: str | None) -> torch.Tensor:
    result: torch.Tensor = torch.ops.hvdlite.allreduce(gradient, Average, 1.0, 1.0, process_set, _gradient_name(name))
    return result


def _of_allgather(ctx: Any, gradient: torch.Tensor) -> Any:
    _, process_set, name = ctx.how
    return _own(_average(gradient, process_set, name), ctx.rows[0], process_set), None, None, None


def _of_grouped_allgather(ctx: Any, gradients: list[torch.Tensor]) -> Any:
    _, process_set, name = ctx.how
    averages = torch.ops.hvdlite.grouped_allreduce(gradients, Average, 1.0, 1.0, process_set, _gradient_name(name))
    mine = [_own(average, rows, process_set) for average, rows in zip(averages, ctx.rows, strict=True)]
    return mine, None, None, None


def _own(whole: torch.Tensor, rows: int, process_set: int) -> torch.Tensor:
    return whole.narrow(0, _position(process_set)[0] * rows, rows).clone()


def _of_broadcast(ctx: Any, gradient: torch.Tensor) -> Any:
    root, process_set, name = ctx.how
    average = _average(gradient, process_set, name)
    return average if engine.rank() == root else average * 0.0, None, None, None


def _of_alltoall(ctx: Any, gradient: torch.Tensor) -> Any:
    process_set, name = ctx.how
    return torch.ops.hvdlite.alltoall(gradient, process_set, _gradient_name(name)), None, None


def _of_reducescatter(ctx: Any, gradient: torch.Tensor) -> Any:
    *_, process_set, name = ctx.how
    whole = torch.ops.hvdlite.allgather(gradient, ctx.rows[0], process_set, _gradient_name(name))
    return (_scattered(ctx, whole), *[None] * 5)


def _of_grouped_reducescatter(ctx: Any, gradients: list[torch.Tensor]) -> Any:
    *_, process_set, name = ctx.how
    wholes = torch.ops.hvdlite.grouped_allgather(gradients, ctx.rows, process_set, _gradient_name(name))
    return ([_scattered(ctx, whole) for whole in wholes], *[None] * 5)


def _scattered(ctx: Any, whole: torch.Tensor) -> torch.Tensor:
    op, prescale, postscale, process_set, _ = ctx.how
    factor = prescale * postscale * (_position(process_set)[1] if op == Sum else 1)
    return whole if factor == 1.0 else whole * factor


_REDUCTION = "int op, float prescale, float postscale, int process_set, str? name"


def _define(signature: str, run: Any, fake: Any, gradient: Any) -> None:
    name = signature.partition("(")[0]
    _library.define(signature)
    _library.impl(name, run, "CompositeExplicitAutograd")
    torch.library.register_fake(f"hvdlite::{name}", fake, lib=_library)
    torch.library.register_autograd(f"hvdlite::{name}", gradient, setup_context=_keep, lib=_library)


def _same(x: torch.Tensor, *_: Any) -> torch.Tensor:
    return x.new_empty(x.shape)


def _gathered(x: torch.Tensor, rows: Any, *_: Any) -> torch.Tensor:
    return x.new_empty((rows, *x.shape[1:]))


def _part(x: torch.Tensor, op: int, prescale: float, postscale: float, process_set: int, name: Any) -> torch.Tensor:
    return x.new_empty((_own_rows(x.shape[0], process_set), *x.shape[1:]))


if AVAILABLE:
    _define(f"allreduce(Tensor x, {_REDUCTION}) -> Tensor", _allreduce, _same, _of_allreduce)
    _define(
        f"grouped_allreduce(Tensor[] x, {_REDUCTION}) -> Tensor[]",
        _grouped_allreduce,
        lambda x, *_: [_same(each) for each in x],
        _of_grouped_allreduce,
    )
    _define("broadcast(Tensor x, int root, int process_set, str? name) -> Tensor", _broadcast, _same, _of_broadcast)
    _define("alltoall(Tensor x, int process_set, str? name) -> Tensor", _alltoall, _same, _of_alltoall)
    _define(
        "allgather(Tensor x, SymInt rows, int process_set, str? name) -> Tensor", _allgather, _gathered, _of_allgather
    )
    _define(
        "grouped_allgather(Tensor[] x, SymInt[] rows, int process_set, str? name) -> Tensor[]",
        _grouped_allgather,
        lambda x, rows, *_: [_gathered(each, r) for each, r in zip(x, rows, strict=True)],
        _of_grouped_allgather,
    )
    _define(f"reducescatter(Tensor x, {_REDUCTION}) -> Tensor", _reducescatter, _part, _of_reducescatter)
    _define(
        f"grouped_reducescatter(Tensor[] x, {_REDUCTION}) -> Tensor[]",
        _grouped_reducescatter,
        lambda x, *how: [_part(each, *how) for each in x],
        _of_grouped_reducescatter,
    )


def _never() -> bool:
    return False


#: Whether the caller is being compiled, so that the operators above have to be used.
is_compiling = getattr(torch.compiler, "is_compiling", _never) if AVAILABLE else _never

#: A decorator: torch.compile leaves the function out of its graphs, without a word.
never_compiled: Any = torch.compiler.disable
