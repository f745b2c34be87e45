"""torch's parameters for hvdlite.adapter.drift_guard."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch

from hvdlite.core import engine
from hvdlite.torch.framework import SUPPORTED

# By the bytes of an element.
_INTEGERS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


class TorchReader:
    """See hvdlite.adapter.drift_guard.Reader."""

    def size(self, parameter: torch.Tensor) -> int:
        return parameter.numel() * parameter.element_size()

    def take(self, parameters: Sequence[torch.Tensor]) -> Callable[[], Sequence[int]]:
        tensors = [parameter.detach() for parameter in parameters]
        here = engine.digests([_lent(tensor) for tensor in tensors if tensor.is_cpu])
        elsewhere = [_sum(tensor) for tensor in tensors if not tensor.is_cpu]
        if not elsewhere:
            return lambda: here
        sums = torch.stack([each.to(elsewhere[0].device) for each in elsewhere])
        fetched = _fetched(sums)
        return lambda: [*here, *(each & 0xFFFFFFFFFFFFFFFF for each in fetched())]

    def exact(self, parameter: torch.Tensor) -> int:
        values = parameter.detach().cpu()
        if values.is_floating_point():
            values = values.masked_fill(values.isnan(), math.nan)
        return engine.digests([_lendable(values.contiguous())])[0]


def _lent(tensor: torch.Tensor) -> torch.Tensor:
    """In the order of its memory, so that channels_last needs no copy."""
    if not tensor.is_contiguous():
        order = sorted(range(tensor.dim()), key=tensor.stride, reverse=True)
        tensor = tensor.permute(order).contiguous()
    return _lendable(tensor)


def _lendable(tensor: torch.Tensor) -> torch.Tensor:
    return tensor if tensor.dtype in SUPPORTED else tensor.reshape(-1).view(torch.uint8)


def _sum(tensor: torch.Tensor) -> torch.Tensor:
    """Changes with every flipped bit, and costs a device one pass. Does not see the order of
    elements."""
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor)
    return tensor.view(_INTEGERS[tensor.element_size()]).sum()


def _fetched(sums: torch.Tensor) -> Callable[[], list[int]]:
    """Does not wait for a GPU before the function is called that it returns."""
    if not sums.is_cuda:
        return sums.cpu().tolist
    host = torch.empty(sums.shape, dtype=sums.dtype, pin_memory=True)
    host.copy_(sums, non_blocking=True)
    with torch.cuda.device(sums.device):
        copied = torch.cuda.Event()  # type: ignore[no-untyped-call]
        copied.record()

    def wait() -> list[int]:
        copied.synchronize()
        values: list[int] = host.tolist()
        return values

    return wait


READER = TorchReader()
