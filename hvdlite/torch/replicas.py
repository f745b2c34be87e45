"""torch's parameters for hvdlite.adapter.agreement.drift_guard."""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch.utils.hooks import unserializable_hook
from torch.utils.weak import WeakTensorKeyDictionary

from hvdlite.adapter.agreement.drift_guard import LOOKED_AT, SAMPLE, Look, Taken
from hvdlite.core import engine
from hvdlite.torch.framework import SUPPORTED

# By the bytes of an element.
_SUMMABLE = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
_INTEGERS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


class TorchReader:
    """See hvdlite.adapter.agreement.drift_guard.Reader."""

    def size(self, parameter: torch.Tensor) -> int:
        return parameter.numel() * parameter.element_size()

    def take(self, parameters: Sequence[torch.Tensor]) -> Callable[[], Taken]:
        tensors = [parameter.detach() for parameter in parameters]
        on_cpu = [tensor for tensor in tensors if tensor.is_cpu]
        elsewhere = [tensor for tensor in tensors if not tensor.is_cpu]
        here = Taken(
            engine.digests([_lent(tensor) for tensor in on_cpu]), _are_finite(on_cpu[-LOOKED_AT:])
        )
        if not elsewhere:
            return lambda: here
        device = elsewhere[0].device
        sums = [_sum(tensor).to(device) for tensor in elsewhere]
        some = [tensor for tensor in elsewhere[-LOOKED_AT:] if _may_be_infinite(tensor)]
        samples = [_sample(tensor).to(device) for tensor in some]
        if samples:
            sums.append(torch.isfinite(torch.cat(samples)).all().to(torch.int64))
        fetched = _fetched(torch.stack(sums))

        def taken() -> Taken:
            found = fetched()
            is_finite = bool(found.pop()) if samples else here.is_finite
            digests = [*here.digests, *(each & 0xFFFFFFFFFFFFFFFF for each in found)]
            return Taken(digests, is_finite and here.is_finite is not False)

        return taken

    def is_finite(self, parameter: torch.Tensor) -> bool:
        return _are_finite([parameter.detach()]) is not False

    def observe(self, parameters: Sequence[torch.Tensor]) -> Callable[[], Look | None]:
        """One small gradient, before it is reduced: a NaN in the loss is in all of them."""
        small = [
            each
            for each in parameters
            if each.requires_grad and each.dim() < 2 and _may_be_infinite(each)
        ]
        # one of the last layer, whose gradients come first
        return _Observer(small[-1]).look if small else lambda: None

    def exact(self, parameter: torch.Tensor) -> int:
        values = parameter.detach().cpu()
        if values.is_floating_point():
            values = values.masked_fill(values.isnan(), math.nan)
        return engine.digests([_lendable(values.contiguous())])[0]


class _Observer:
    """The gradients of a parameter in all backward passes of a step, as long as this object is
    used."""

    def __init__(self, parameter: torch.Tensor) -> None:
        self._sum: torch.Tensor | None = None
        found = weakref.ref(self)

        @unserializable_hook
        def came(gradient: torch.Tensor | None) -> None:
            observer = found()
            if observer is not None and gradient is not None and gradient.layout is torch.strided:
                observer._add(_sample(gradient.detach()).sum(dtype=torch.float32))

        handle = parameter.register_hook(came)  # type: ignore[no-untyped-call]
        weakref.finalize(self, handle.remove)

    def _add(self, number: torch.Tensor) -> None:
        self._sum = number if self._sum is None else self._sum + number

    def look(self) -> Look | None:
        total, self._sum = self._sum, None
        if total is None:
            return None
        if total.is_cpu:
            is_finite = math.isfinite(total.item())
            return lambda: is_finite
        fetched = _fetched(torch.isfinite(total).to(torch.int64).reshape(1))
        return lambda: bool(fetched()[0])


def _may_be_infinite(tensor: torch.Tensor) -> bool:
    return tensor.is_floating_point() or tensor.is_complex()


def _sample(tensor: torch.Tensor) -> torch.Tensor:
    """Some elements, without a copy of all where these do not lie in order."""
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor)
    while tensor.dim() > 1 and tensor.numel() > SAMPLE:
        tensor = tensor[0]
    tensor = tensor.reshape(-1)[:SAMPLE]
    return tensor if tensor.dtype in _SUMMABLE else tensor.float()


def _are_finite(tensors: Sequence[torch.Tensor]) -> bool | None:
    samples = [_sample(tensor) for tensor in tensors if _may_be_infinite(tensor)]
    return bool(torch.isfinite(torch.cat(samples)).all()) if samples else None


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


_own: Any = WeakTensorKeyDictionary()


def declare_own(parameters: Iterable[torch.Tensor]) -> None:
    """Elastic states do not expect these to be the same on all ranks, which train them by
    themselves for many steps."""
    _own.update((parameter, True) for parameter in parameters)


def is_own(parameter: torch.Tensor) -> bool:
    return parameter in _own
