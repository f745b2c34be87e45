"""torch's primitives for hvdlite.adapter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from hvdlite.core import engine
from hvdlite.core.framework import DTYPES, Common
from hvdlite.core.gradients import Rule
from hvdlite.torch import older

# float8, complex and quantised tensors have no sum here.
SUPPORTED = frozenset(getattr(torch, name) for name in DTYPES if hasattr(torch, name))


def sample(tensor: torch.Tensor, most: int) -> Any:
    """The bytes of elements here and there, as numpy's: at least `most` if there are so many, and
    fewer than twice as many."""
    flat = tensor.detach().reshape(-1)
    some = flat[:: max(1, flat.numel() // most)].cpu().contiguous()
    return some.view(torch.uint8).numpy()


class TorchFramework(Common):
    """See hvdlite.core.framework.Framework."""

    mutable = torch.Tensor

    def check(self, tensor: Any) -> None:
        """TypeError or ValueError with a sentence, if this cannot be communicated."""
        if not isinstance(tensor, torch.Tensor):
            raise TypeError(f"expected a torch.Tensor, got {type(tensor).__name__}")
        if tensor.layout != torch.strided:
            raise ValueError(
                "sparse tensors cannot be communicated like this: use hvd.sparse_allreduce_async, "
                "or tensor.to_dense()"
            )
        if tensor.dtype not in SUPPORTED:
            raise ValueError(f"Tensor type {tensor.type()} is not supported.")

    def lend(self, tensor: torch.Tensor, in_place: bool = False) -> torch.Tensor:
        self.check(tensor)
        if tensor.requires_grad:
            tensor = tensor.detach()
        if tensor.is_cpu or stays_on_gpu(tensor):
            return tensor.contiguous()
        # Ordered behind the work on the device's current stream, and waited for.
        host = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=tensor.is_cuda)
        return host.copy_(tensor)

    def extent(self, host: torch.Tensor) -> tuple[int, int]:
        start = host.data_ptr()
        return start, start + host.nbytes

    def copied(self, host: torch.Tensor) -> torch.Tensor:
        return host.clone()

    def empty_like(self, host: torch.Tensor) -> torch.Tensor:
        return torch.empty_like(host)  # contiguous, as `host` is

    def deliver(self, host: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
        return host if like.is_cpu else host.to(like.device)

    def write_back(self, host: torch.Tensor, tensor: torch.Tensor) -> torch.Tensor:
        if host is not tensor:
            plain = tensor.detach()
            if plain.data_ptr() != host.data_ptr() or not plain.is_contiguous():
                plain.copy_(host)  # counts as a change by itself
                return tensor
        older.have_changed((tensor,))
        return tensor

    def adopt(self, array: Any, like: torch.Tensor) -> torch.Tensor:
        if isinstance(array, engine.DeviceArray):
            on_gpu: torch.Tensor = torch.utils.dlpack.from_dlpack(array)  # type: ignore[no-untyped-call]
            return on_gpu
        tensor = torch.from_numpy(array)
        if tensor.dtype != like.dtype:
            tensor = tensor.view(like.dtype)
        return tensor if like.is_cpu else tensor.to(like.device)

    def integers(self, values: Sequence[int], like: torch.Tensor | None) -> torch.Tensor:
        return torch.tensor(
            list(values), dtype=torch.int32, device=None if like is None else like.device
        )

    def lengthened(self, tensor: torch.Tensor, rows: int) -> torch.Tensor:
        missing = rows - tensor.shape[0]
        return (
            torch.cat([tensor, tensor.new_zeros((missing, *tensor.shape[1:]))])
            if missing
            else tensor
        )

    def is_floating(self, tensor: torch.Tensor) -> bool:
        return tensor.is_floating_point()

    def cast(self, tensor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
        return tensor.to(dtype)

    def differentiable(
        self, rule: Rule, tensors: Sequence[torch.Tensor]
    ) -> tuple[torch.Tensor, ...]:
        if torch.is_grad_enabled() and _wants_gradient(rule, tensors):
            results: tuple[torch.Tensor, ...] = _Recorded.apply(rule, *tensors)  # type: ignore[no-untyped-call]
            return results
        return rule.forward(tensors)


def stays_on_gpu(tensor: torch.Tensor) -> bool:
    """Whether the core takes it where it is, on a GPU."""
    # ROCm's tensors call themselves CUDA's, too. Older versions of torch do not lend bool tensors.
    lends = (
        tensor.is_cuda
        and torch.version.hip is None
        and (tensor.dtype != torch.bool or older.lends_bool())
    )
    return lends and engine.takes_gpus()


def _wants_gradient(rule: Rule, tensors: Sequence[torch.Tensor]) -> bool:
    needing = [t for t in tensors if isinstance(t, torch.Tensor) and t.requires_grad]
    # A leaf that needs a gradient may not be part of an operation in place. A program that asks for
    # that means its value.
    return bool(needing) and not (rule.in_place and any(t.is_leaf for t in needing))


class _Recorded(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rule: Rule, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        ctx.rule = rule
        results = rule.forward(tensors)
        if rule.in_place:
            ctx.mark_dirty(*results)
        if rule.constants:
            ctx.mark_non_differentiable(*results[-rule.constants :])
        return results

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        return None, *ctx.rule.backward([g.contiguous() for g in gradients])


class _BoolByNumpyFramework(TorchFramework):
    """For torch before 2.2."""

    def lend(self, tensor: torch.Tensor, in_place: bool = False) -> torch.Tensor:
        return _lendable(super().lend(tensor, in_place))

    def deliver(self, host: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
        return super().deliver(
            host.as_subclass(torch.Tensor) if host.dtype == torch.bool else host, like
        )


def _lendable(host: torch.Tensor) -> torch.Tensor:
    return host.as_subclass(older.BoolByNumpy) if host.dtype == torch.bool and host.is_cpu else host


FRAMEWORK = TorchFramework() if older.lends_bool() else _BoolByNumpyFramework()
