"""Keras on torch: everything happens at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from hvdlite.adapter.step import Options
from hvdlite.base.operations import ALLREDUCE
from hvdlite.core.engine import run_now
from hvdlite.core.operations import Call
from hvdlite.torch.ops import OPS
from hvdlite.torch.traced import never_compiled


class TorchBackend:
    """See hvdlite.keras.backends.Backend."""

    dynamic = True

    def allreduce(self, groups: Sequence[Sequence[Any]], options: Options) -> list[list[Any]]:
        how = (options.process_set, options.op, options.prescale, options.postscale)
        names = [f"{options.scope}gradients.{i}" for i in range(len(groups))]
        calls = [Call(ALLREDUCE, name, *how, grouped=True) for name in names]
        under_way = [OPS.start(call, group) for call, group in zip(calls, groups, strict=True)]
        return [list(run_now(pending)) for pending in under_way]

    @never_compiled  # compile(jit_compile=True)
    def outside(self, function: Callable[..., Any], *given: Any) -> Any:
        return function(*given)

    def is_sparse(self, gradient: Any) -> bool:
        return False  # Keras' embeddings have dense gradients on torch

    def to_dense(self, gradient: Any) -> Any:
        return gradient

    def scaled(self, gradient: Any, factor: float) -> Any:
        return gradient * factor


BACKEND = TorchBackend()
