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
from jax.extend.core import Primitive
from jax.interpreters import batching, mlir, partial_eval

from hvdlite.adapter import interrupts, xla
from hvdlite.core.operations import Call
from hvdlite.jax import trace
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


def emit(call: Call, tensors: Sequence[Array], shapes: Sequence[tuple[int, ...]],
         codec: dict[str, Any] | None = None) -> list[Array]:  # fmt: skip
    """The call as an operation of the program: one call of the handler (see hvdlite.adapter.xla).

    `shapes` are those of the results. `codec`: xla.codec_attributes().
    """
    interrupts.watch(_is_waiting)
    attributes = _Attributes(xla.attributes(call, call.name or place()) | (codec or {}))
    operands = [*tensors, token()]
    results = tuple(
        jax.core.ShapedArray(shape, each.dtype)
        for shape, each in zip([*shapes, ()], operands, strict=True)
    )
    *made, token_after = _collective.bind(
        *operands, results=results, attributes=attributes, effectful=True
    )
    follow(token_after)
    return made


def _is_waiting(_: str) -> bool:
    return xla.waiting() > 0


# ---- the primitive, whose effect JAX has forgotten by the time it dispatches a program
#
# The effect is why a call whose result is not used on this rank still happens: JAX drops what has
# none. But it dispatches a program that has one from Python instead of C++, which costs some 0.02
# ms for each array that goes in. What may be dropped it decides when it lowers a program, by asking
# each primitive (dce_rules): that is when ours gives its effect up. Before XLA, which neither drops
# nor merges it, the call stands as one with side effects all the same.

_collective = Primitive("hvdlite")
_collective.multiple_results = True

# That of JAX's own calls with side effects, which it lets into loops and branches.
_EFFECTS = frozenset(
    jax.make_jaxpr(
        lambda: jax.ffi.ffi_call(
            xla.TARGET, jax.ShapeDtypeStruct((), "float32"), has_side_effect=True
        )()
    )().effects
)


class _Attributes(dict[str, Any]):
    """As a parameter of a primitive, which must have a hash: each call's are its own."""

    __hash__ = object.__hash__  # type: ignore[assignment]
    __eq__ = object.__eq__


def _without_effect(*asked: Any) -> Any:
    """What JAX asks when it drops what is not used: which operands are, and what is left of the
    call. From JAX 0.12 on it says, too, which operands are read later."""
    equation = asked[-1]
    # it may ask several times while it traces; this is for lowering, and the last
    if not trace.is_tracing():
        params = equation.params | {"effectful": False}
        equation = equation.replace(params=params, effects=frozenset())
    return [True] * len(equation.invars), equation


def _describe(*_: Any, results: Any, effectful: bool, **__: Any) -> Any:
    return results, _EFFECTS if effectful else frozenset()


def _lower(context: Any, *operands: Any, attributes: _Attributes, **_: Any) -> Any:
    token = len(operands) - 1  # goes through the call as it is
    lower = jax.ffi.ffi_lowering(
        xla.TARGET, has_side_effect=True, operand_output_aliases={token: token}
    )
    return lower(context, *operands, **attributes)


def _run(*operands: Array, **how: Any) -> Any:
    """For an interpreter of a jaxpr, which runs one operation after the other."""
    return jax.jit(lambda *given: _collective.bind(*given, **how))(*operands)


def _refuse_vmap(*_: Any, **__: Any) -> Any:
    raise NotImplementedError(
        "a collective cannot be vmapped: how often it would run, and under which names, depends on "
        "the batch. Call it outside jax.vmap, on the whole batch at once."
    )


def _allow_checkpoint() -> None:
    """jax.checkpoint may run a collective a second time: all ranks do. JAX has no public way to say
    so."""
    with contextlib.suppress(ImportError, AttributeError):
        from jax._src import effects

        for kinds in (effects.remat_allowed_effects, effects.custom_derivatives_allowed_effects):
            for effect in _EFFECTS:
                kinds.add_type(type(effect))


def _register() -> None:
    """On platforms that have no handler a call does not compile."""
    library = xla.library()
    on_cpu, on_cuda = library.hvdlite_xla_collective, library.hvdlite_xla_collective_on_cuda
    for platform, xlas_name, handler in (("cpu", "cpu", on_cpu), ("cuda", "CUDA", on_cuda)):
        jax.ffi.register_ffi_target(xla.TARGET, jax.ffi.pycapsule(handler), platform=xlas_name)
        mlir.register_lowering(_collective, _lower, platform=platform)
    _collective.def_effectful_abstract_eval(_describe)
    _collective.def_impl(_run)
    batching.primitive_batchers[_collective] = _refuse_vmap
    partial_eval.dce_rules[_collective] = _without_effect
    _allow_checkpoint()


_register()
