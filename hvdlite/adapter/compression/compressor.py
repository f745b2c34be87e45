"""Any compressor in the one form that the rest of the adapter uses."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from hvdlite.adapter.compression.casts import Cast, Compressor, Nothing
from hvdlite.adapter.compression.methods import DENSE, Method
from hvdlite.adapter.compression.rounds import OneRound, RoundRunner
from hvdlite.core.collectives import Collectives
from hvdlite.core.engine import run_now, synchronize
from hvdlite.core.framework import Tensor
from hvdlite.core.operations import Call


class CompressionAdapter:
    """Any compressor, in the one form that the rest of the adapter uses."""

    def __init__(self, compression: Any) -> None:
        _check(compression)
        self.given = compression
        #: the compressor, if it has rounds and a memory
        self.method = compression if isinstance(compression, Method) else None
        self.is_none = _does_nothing(compression)
        self.decompress: Callable[[Any, Any], Tensor] = compression.decompress
        self.communicate: Callable[..., Any] | None = getattr(compression, "communicate", None)
        compress = compression.compress
        if _takes_a_name(compress):
            self.compress: Callable[[Tensor, str | None], tuple[Any, Any]] = compress
        else:
            self.compress = lambda tensor, name: compress(tensor)

    @property
    def carries_momentum(self) -> bool:
        return self.method is not None and self.method.momentum > 0

    def __str__(self) -> str:
        if self.is_none:
            return "no compression"
        if isinstance(self.given, (Method, Cast)):
            return str(self.given)
        return (self.given if isinstance(self.given, type) else type(self.given)).__name__

    def serve(self, owner: object) -> None:
        """A ValueError if the compressor has the memory of another owner that still exists."""
        if self.method is not None:
            self.method.serve(owner)

    def check_momentum(self, optimizers: Mapping[str, Any]) -> None:
        """A ValueError if the compressor carries momentum and the optimizer has some (these options
        of it), too."""
        if self.carries_momentum and optimizers:
            (key, value), *_ = optimizers.items()
            raise ValueError(
                f"{self.given} carries the momentum itself, and the optimizer has {key}={value}: "
                "momentum would count twice. Use an optimizer without it, such as plain SGD, or "
                "momentum=0 in the compression."
            )

    def warn_of_decay(self, weight_decay: float, stacklevel: int) -> None:
        """If the compressor carries momentum and the optimizer decays weights behind it."""
        if self.carries_momentum and weight_decay:
            assert self.method is not None
            factor = 1.0 / (1.0 - self.method.momentum)
            warnings.warn(
                f"{self.given} adds momentum to gradients, and not to the optimizer's "
                f"weight_decay={weight_decay:g}: weights decay {factor:g} times more slowly than "
                f"with SGD(momentum={self.method.momentum:g}). Multiply weight_decay by {factor:g} "
                "for the same decay.",
                stacklevel=stacklevel + 1,
            )

    def start(
        self, ops: Collectives, call: Call, tensor: Tensor, key: str | None = None
    ) -> RoundRunner | OneRound:
        """Starts an allreduce of the compressed tensor, whose result() waits for it and may be
        called once. `key`: the tensor's entry in a memory, where that is not the call's name."""
        key = key or call.name or ""
        if self.method is not None:
            part = self.method.part(key, ops.framework.shape(tensor))
            if part is not DENSE:
                return RoundRunner(self.method, ops, call, tensor, key, part)
        payload, context = self.compress(tensor, call.name)
        if self.communicate is not None:
            handle = self.communicate(payload, call.name, call.op, call.process_set)
            wait = handle if callable(handle) else partial(synchronize, handle)
        else:
            wait = partial(run_now, ops.start(call, [payload]))
        return OneRound(lambda: self.decompress(wait(), context))

    def state_dict(self) -> dict[str, Any]:
        remember = getattr(self.given, "state_dict", None)
        return remember() if callable(remember) else {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        recall = getattr(self.given, "load_state_dict", None)
        if callable(recall):
            recall(state)


class HasCompression:
    """An optimizer whose options have a compression."""

    _hvd: Any

    @property
    def compression(self) -> Any:
        """The compression of the gradients: its on_epoch() says which epoch begins."""
        return self._hvd.compression.given


def compressed(
    compression: Any,
    tensors: Sequence[Tensor],
    name: str | None,
    send: Callable[[Sequence[Tensor]], Sequence[Tensor]],
) -> list[Tensor]:
    """send(tensors), compressed before and decompressed after."""
    if type(compression) is Compressor:  # hvd.Compression.none
        return list(send(tensors))
    adapted = CompressionAdapter(compression)
    packed = [adapted.compress(tensor, name) for tensor in tensors]
    received = send([payload for payload, _ in packed])
    return [
        adapted.decompress(tensor, context)
        for tensor, (_, context) in zip(received, packed, strict=True)
    ]


def _check(compression: Any) -> None:
    if callable(getattr(compression, "compress", None)):
        return
    known = "hvd.Compression.int8()"
    if isinstance(compression, str):
        known = f"hvd.Compression.{compression} or hvd.Strategy(compression={compression!r})"
    raise TypeError(f"compression={compression!r} is no compression: pass one, such as {known}")


def _does_nothing(compression: Any) -> bool:
    kind = compression if isinstance(compression, type) else type(compression)
    same = any(
        all(getattr(kind, m, None) is getattr(nothing, m) for m in ("compress", "decompress"))
        for nothing in (Compressor, Nothing)
    )
    return same and not hasattr(compression, "communicate") and not isinstance(compression, Method)


def _takes_a_name(compress: Callable[..., Any]) -> bool:
    try:
        parameters = list(inspect.signature(compress).parameters.values())
    except (TypeError, ValueError):
        return False
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    return len(positional) >= 2 or any(p.kind == p.VAR_POSITIONAL for p in parameters)
