"""A collective as an operation of a compiled program (jax.jit), and the order of several.

XLA runs what is independent at the same time and in any order, other ones on other ranks, while a
collective blocks a thread until all ranks have come. So each call takes a token that the previous
call of the same trace has returned, and ranks that trace the same program run its collectives in
the same order, one by one.
"""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from hvdlite.adapter import interrupts, xla
from hvdlite.core.operations import Call
from hvdlite.jax import primitive, trace
from hvdlite.job.frames import name_of_line

Array = Any


class _Last(threading.local):
    """The token of the last call, and the trace that it belongs to."""

    trace: Any = None
    token: Any = None


_last = _Last()


def token() -> Array:
    """What the next call of this trace depends on."""
    return _last.token if _last.trace == trace.state() else jnp.zeros((), jnp.float32)


def follow(token: Array) -> None:
    """The next call of this trace comes after the one that returned this token."""
    _last.trace, _last.token = trace.state(), token


@contextlib.contextmanager
def after(token: Array) -> Iterator[None]:
    """What is called inside comes after `token`; nothing that is called outside does."""
    outside = _last.trace, _last.token
    follow(token)
    try:
        yield
    finally:
        _last.trace, _last.token = outside


def place() -> str:
    """A name for a call that has none: the line of the program that makes it, which all ranks have
    in common."""
    return name_of_line(sys._getframe(1))


def emit(call: Call, tensors: Sequence[Array], shapes: Sequence[tuple[int, ...]]) -> list[Array]:
    """The call as an operation of the program. `shapes` are those of the results."""
    interrupts.watch(_is_waiting)
    attributes = xla.attributes(call, call.name or place())
    results = [
        jax.ShapeDtypeStruct(shape, t.dtype) for shape, t in zip(shapes, tensors, strict=True)
    ]
    results.append(jax.ShapeDtypeStruct((), jnp.float32))
    *made, token_after = primitive.collective([*tensors, token()], results, attributes)
    follow(token_after)
    return made


def emit_encoded(
    call: Call, arrays: Sequence[Array], residuals: Sequence[Array], step: Array, codec: int,
    parameter: float, seed: int,
) -> tuple[list[Array], list[Array]]:  # fmt: skip
    """An allreduce by a codec as an operation of the program: the sums, and the new residuals."""
    interrupts.watch(_is_waiting)
    attributes = xla.attributes(call, call.name or place())
    attributes |= xla.codec_attributes(codec, parameter, seed, len(residuals))
    operands = [*arrays, *residuals, jnp.asarray(step, jnp.float32), token()]
    results = [jax.ShapeDtypeStruct(each.shape, each.dtype) for each in operands]
    *made, _, token_after = primitive.collective(operands, results, attributes)
    sums, kept = made[: len(arrays)], made[len(arrays) :]
    follow(token_after)
    return sums, kept


def _is_waiting(_: str) -> bool:
    return xla.waiting() > 0
