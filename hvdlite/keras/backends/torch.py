"""Keras on torch: everything happens at once. Its embeddings have dense gradients."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from hvdlite.adapter.at_once.primitives import Group
from hvdlite.adapter.step import Options
from hvdlite.base.operations import ALLGATHER, ALLREDUCE
from hvdlite.core.engine import run_all
from hvdlite.core.operations import Call
from hvdlite.keras.backends import Backend
from hvdlite.keras.flavour import KERAS
from hvdlite.torch.compression.algebra import ALGEBRA
from hvdlite.torch.ops import OPS
from hvdlite.torch.traced import never_compiled


class TorchBackend(Backend):
    dynamic = True
    algebra = ALGEBRA

    def allreduce(self, groups: Sequence[Group], options: Options) -> Group:
        how = (options.process_set, options.op, options.prescale, options.postscale)
        calls = [
            Call(ALLREDUCE, f"{options.scope}gradients.{i}", *how, grouped=True, patient=True)
            for i in range(len(groups))
        ]
        started = [
            OPS.start(call, list(group.values())) for call, group in zip(calls, groups, strict=True)
        ]
        return {
            number: result
            for group, results in zip(groups, run_all(started), strict=True)
            for number, result in zip(group, results, strict=True)
        }

    def allgather(self, group: Group, options: Options) -> Group:
        call = Call(ALLGATHER, f"{options.scope}gradients.rows", options.process_set, grouped=True)
        rows = [array[None] for array in group.values()]
        return dict(zip(group, run_all([OPS.start(call, rows)])[0], strict=True))

    @never_compiled  # compile(jit_compile=True)
    def outside(self, function: Callable[..., Any], *given: Any) -> Any:
        return function(*given)

    def flags(self, values: Sequence[bool]) -> Any:
        return KERAS.ops.convert_to_tensor([float(value) for value in values], "float32")

    def seen(self, flags: Any) -> Sequence[bool]:
        return [bool(flag) for flag in KERAS.ops.convert_to_numpy(flags)]

    def zeros_like(self, variable: Any) -> Any:
        return KERAS.ops.zeros_like(variable)


BACKEND = TorchBackend()
