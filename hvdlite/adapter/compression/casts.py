"""Compressors without memory, and the class to derive others from.

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

from typing import Any

from hvdlite.core.framework import DifferentiableFramework, Tensor


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

    def __repr__(self) -> str:
        return "Compression.none" if type(self) is Compressor else f"{type(self).__name__}()"


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

    def __repr__(self) -> str:
        return f"a cast to {self._dtype}"


def as_class(name: str, cast: Cast) -> type[Compressor]:
    """A compressor as Horovod has it: a class whose functions are called without an object."""
    functions = {
        "compress": staticmethod(cast.compress),
        "decompress": staticmethod(cast.decompress),
    }
    return type(name, (Compressor,), functions)
