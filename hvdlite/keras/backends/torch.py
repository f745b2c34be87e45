"""Keras on torch: everything happens at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from hvdlite.core.engine import run_now
from hvdlite.core.operations import ALLREDUCE, Call
from hvdlite.keras.backends import Way
from hvdlite.torch.ops import OPS
from hvdlite.torch.traced import never_compiled


class TorchBackend:
    """See hvdlite.keras.backends.Backend."""

    dynamic = True

    def allreduce(self, scope: str, groups: Sequence[Sequence[Any]], way: Way) -> list[list[Any]]:
        call = Call(ALLREDUCE, None, way.process_set, way.op, way.prescale, way.postscale, grouped=True)
        under_way = [OPS.start(call._replace(name=f"{scope}gradients.{i}"), group) for i, group in enumerate(groups)]
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
