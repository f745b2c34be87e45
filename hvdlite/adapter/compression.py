"""Compression of gradients on their way.

A compressor has, in its full form ("version 2"),

    compress(tensor, name) -> (payload, context)
    decompress(payload, context) -> tensor
    communicate(payload, name, op, process_set) -> handle     optional: it sends by its own means
    state_dict(), load_state_dict(state)                      optional: memory that belongs into a
                                                              checkpoint
    on_epoch(epoch)                                           optional

`communicate` returns what synchronize() takes, or a function that waits and returns the payload.
Horovod's form, compress(tensor) without a name, is taken as well.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from hvdlite.core.collectives import Collectives
from hvdlite.core.engine import run_now, synchronize
from hvdlite.core.framework import DifferentiableFramework, Tensor
from hvdlite.core.operations import Call


class Compressor:
    """To derive from. As it stands it compresses nothing."""

    def compress(self, tensor: Tensor, name: str | None = None) -> tuple[Any, Any]:
        """What is sent instead of the tensor, and what decompress() needs to know."""
        return tensor, None

    def decompress(self, tensor: Any, ctx: Any) -> Tensor:
        """The tensor that the payload stands for."""
        return tensor

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint must keep."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """The reverse of state_dict()."""

    def on_epoch(self, epoch: int) -> None:
        """For schedules; the program calls it."""


class Nothing(Compressor):
    """hvd.Compression.none as a class, whose functions need no object."""

    @staticmethod
    def compress(tensor: Tensor, name: str | None = None) -> tuple[Any, Any]:
        return tensor, None

    @staticmethod
    def decompress(tensor: Any, ctx: Any = None) -> Tensor:
        return tensor


class Cast(Compressor):
    """Sends floating-point tensors in a narrower type, and all others as they are."""

    def __init__(self, framework: DifferentiableFramework, dtype: Any) -> None:
        self._framework = framework
        self._dtype = dtype

    def compress(self, tensor: Tensor, name: str | None = None) -> tuple[Any, Any]:
        dtype = self._framework.dtype(tensor)
        if self._framework.is_floating(tensor) and dtype != self._dtype:
            tensor = self._framework.cast(tensor, self._dtype)
        return tensor, dtype

    def decompress(self, tensor: Any, ctx: Any) -> Tensor:
        return tensor if self._framework.dtype(tensor) == ctx else self._framework.cast(tensor, ctx)


def choices(framework: DifferentiableFramework, float16: Any, bfloat16: Any) -> Any:
    """hvd.Compression: how gradients are compressed on their way.

    `none` sends them as they are, `fp16` and `bf16` floating-point tensors in these types. bfloat16
    has float32's range, and less precision.
    """
    casts = {"fp16": Cast(framework, float16), "bf16": Cast(framework, bfloat16)}
    return type("Compression", (), {"__doc__": choices.__doc__, "none": Compressor(), **casts})


class Settled:
    """Any compressor, in the one form that the rest of the adapter uses."""

    def __init__(self, compression: Any) -> None:
        self.given = compression
        self.is_none = _does_nothing(compression)
        self.decompress: Callable[[Any, Any], Tensor] = compression.decompress
        self.communicate: Callable[..., Any] | None = getattr(compression, "communicate", None)
        compress = compression.compress
        if _takes_a_name(compress):
            self.compress: Callable[[Tensor, str | None], tuple[Any, Any]] = compress
        else:
            self.compress = lambda tensor, name: compress(tensor)

    def start(self, ops: Collectives, call: Call, tensor: Tensor) -> Callable[[], Tensor]:
        """Starts an allreduce of the compressed tensor; the function returned waits for it. It may
        be called once."""
        payload, context = self.compress(tensor, call.name)
        if self.communicate is not None:
            handle = self.communicate(payload, call.name, call.op, call.process_set)
            wait = handle if callable(handle) else partial(synchronize, handle)
        else:
            wait = partial(run_now, ops.start(call, [payload]))
        return lambda: self.decompress(wait(), context)

    def state_dict(self) -> dict[str, Any]:
        remember = getattr(self.given, "state_dict", None)
        return remember() if callable(remember) else {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        recall = getattr(self.given, "load_state_dict", None)
        if callable(recall):
            recall(state)


def compressed(
    compression: Any,
    tensors: Sequence[Tensor],
    name: str | None,
    send: Callable[[Sequence[Tensor]], Sequence[Tensor]],
) -> list[Tensor]:
    """send(tensors), compressed on their way."""
    if type(compression) is Compressor:  # hvd.Compression.none
        return list(send(tensors))
    settled = Settled(compression)
    packed = [settled.compress(tensor, name) for tensor in tensors]
    received = send([payload for payload, _ in packed])
    return [
        settled.decompress(tensor, context)
        for tensor, (_, context) in zip(received, packed, strict=True)
    ]


def as_class(name: str, cast: Cast) -> type[Compressor]:
    """A compressor as Horovod has it: a class whose functions are called without an object."""
    functions = {
        "compress": staticmethod(cast.compress),
        "decompress": staticmethod(cast.decompress),
    }
    return type(name, (Compressor,), functions)


def _does_nothing(compression: Any) -> bool:
    kind = compression if isinstance(compression, type) else type(compression)
    same = any(
        all(getattr(kind, m, None) is getattr(nothing, m) for m in ("compress", "decompress"))
        for nothing in (Compressor, Nothing)
    )
    return same and not hasattr(compression, "communicate")


def _takes_a_name(compress: Callable[..., Any]) -> bool:
    try:
        parameters = list(inspect.signature(compress).parameters.values())
    except (TypeError, ValueError):
        return False
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    return len(positional) >= 2 or any(p.kind == p.VAR_POSITIONAL for p in parameters)
