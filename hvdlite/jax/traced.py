"""A collective as an operation of a compiled program (jax.jit), and the order of several.

XLA runs what is independent at the same time and in any order, other ones on other ranks, while a collective blocks a thread
until all ranks have come. So each call takes a token that the previous call of the same trace has returned, and ranks that
trace the same program run its collectives in the same order, one by one.
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
from hvdlite.ops import Sum
from hvdlite.process_sets import ProcessSet
from hvdlite.where import place_of

Array = Any

try:
    from jax.extend.core import get_opaque_trace_state as _trace_state
except ImportError:  # before 0.10

    def _trace_state() -> Any:
        return jax.core.get_opaque_trace_state("hvdlite")


with jax.ensure_compile_time_eval():
    _NO_TRACE = _trace_state()


def is_tracing() -> bool:
    """Whether a transformation runs the caller, so that what it does is recorded rather than done."""
    return bool(_trace_state() != _NO_TRACE)


class _Last(threading.local):
    """The token of the last call, and the trace that it belongs to."""

    trace: Any = None
    token: Any = None


_last = _Last()


def token() -> Array:
    """What the next call of this trace depends on."""
    return _last.token if _last.trace == _trace_state() else jnp.zeros((), jnp.float32)


def follow(token: Array) -> None:
    """The next call of this trace comes after the one that returned this token."""
    _last.trace, _last.token = _trace_state(), token


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
    """A name for a call that has none: the line of the program that makes it, which all ranks have in common."""
    return place_of(sys._getframe(1))


def call(
    kind: int,
    tensors: Sequence[Array],
    shapes: Sequence[tuple[int, ...]],
    name: str | None,
    process_set: ProcessSet,
    op: int = Sum,
    root: int = 0,
    prescale: float = 1.0,
    postscale: float = 1.0,
) -> list[Array]:
    """The collective over all tensors, which travel together. `shapes` are those of the results."""
    interrupts.watch(_is_waiting)
    how = xla.attributes(kind, name or place(), process_set, op, root, prescale, postscale)
    results = [jax.ShapeDtypeStruct(shape, t.dtype) for shape, t in zip(shapes, tensors, strict=True)]
    results.append(jax.ShapeDtypeStruct((), jnp.float32))

    @jax.custom_batching.custom_vmap
    def run(*operands: Array) -> list[Array]:
        # With side effects, so that a call whose result nobody uses on this rank still happens.
        return list(jax.ffi.ffi_call(xla.TARGET, results, has_side_effect=True)(*operands, **how))

    run.def_vmap(_refuse_vmap)
    *made, token_after = run(*tensors, token())
    follow(token_after)
    return made


def _is_waiting(_: str) -> bool:
    return xla.waiting() > 0


def _refuse_vmap(*_: Any) -> Any:
    raise NotImplementedError(
        "a collective cannot be vmapped: how often it would run, and under which names, depends on the batch. Call it outside "
        "jax.vmap, on the whole batch at once."
    )


def register() -> None:
    """Makes the handler known to JAX. Only the CPU's so far: on other platforms a call does not compile."""
    handler = jax.ffi.pycapsule(xla.library().hvdlite_xla_collective)
    jax.ffi.register_ffi_target(xla.TARGET, handler, platform="cpu")


def _allow_checkpoint() -> None:
    """jax.checkpoint may run a collective a second time: all ranks do. JAX has no public way to say so."""
    with contextlib.suppress(ImportError, AttributeError):
        from jax._src import effects, ffi

        for kinds in (effects.remat_allowed_effects, effects.custom_derivatives_allowed_effects):
            kinds.add_type(ffi.FfiEffect)


register()
_allow_checkpoint()
