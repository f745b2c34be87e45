"""What hvdlite must know about a framework: a handful of primitives, and nothing else.

Ask of each line in an adapter: is this about the operation or about the framework? What is about
the operation belongs in this folder; what only the framework knows is a method here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

Tensor = Any  # the framework's own
#: The types that the core knows, by the names that frameworks have for them.
DTYPES = (
    "bool uint8 int8 uint16 int16 uint32 int32 uint64 int64 float16 bfloat16 float32 float64"
).split()

Host = Any  # what the native core can be lent: contiguous, in host memory or on a CUDA GPU


class Framework(Protocol):
    """What operations need."""

    #: The class of the tensors whose memory the core may overwrite; () if there is none.
    mutable: Any

    def shape(self, tensor: Tensor) -> Sequence[int]: ...

    def lend(self, tensor: Tensor, in_place: bool = False) -> Host:
        """The tensor itself where the core can read it; else a contiguous copy, in host memory if
        need be.

        Raises TypeError or ValueError for what cannot be communicated, or not in place.
        """

    def extent(self, host: Host) -> tuple[int, int]:
        """The addresses of its first byte and behind its last one; (0, 0) where another tensor
        cannot share its memory."""

    def copied(self, host: Host) -> Host: ...

    def empty_like(self, host: Host) -> Host | None:
        """Memory for a result of the same shape; None: the core allocates it."""

    def deliver(self, host: Host, like: Tensor) -> Tensor:
        """A result as a tensor on the device of `like`."""

    def write_back(self, host: Host, tensor: Tensor) -> Tensor:
        """After an operation in place: what lend() gave goes back into the tensor, unless it is the
        same memory."""

    def adopt(self, array: Any, like: Tensor) -> Tensor:
        """A result that came as a numpy array, or a DeviceArray if it is on a GPU, as a tensor of
        the dtype and on the device of `like`.

        numpy has no bfloat16: that comes as int16, and is to be seen as what it is.
        """

    def integers(self, values: Sequence[int], like: Tensor | None) -> Tensor:
        """int32, on the device of `like`."""


class Common:
    """What most frameworks answer alike."""

    mutable: Any = ()

    def extent(self, host: Host) -> tuple[int, int]:
        return 0, 0

    def copied(self, host: Host) -> Host:
        return host

    def shape(self, tensor: Tensor) -> Sequence[int]:
        return tuple(tensor.shape)

    def rows(self, tensor: Tensor, start: Any, count: Any) -> Tensor:
        return tensor[start : start + count]

    def scaled(self, tensor: Tensor, factor: float) -> Tensor:
        return tensor * factor

    def dtype(self, tensor: Tensor) -> Any:
        return tensor.dtype


class DifferentiableFramework(Framework, Protocol):
    """What gradients and their compression need besides."""

    def rows(self, tensor: Tensor, start: int, count: int) -> Tensor: ...

    def lengthened(self, tensor: Tensor, rows: Any) -> Tensor:
        """With rows of zeros at its end, so that it has so many; differentiable."""

    def scaled(self, tensor: Tensor, factor: float) -> Tensor:
        """tensor * factor, differentiable."""

    def dtype(self, tensor: Tensor) -> Any: ...

    def is_floating(self, tensor: Tensor) -> bool: ...

    def cast(self, tensor: Tensor, dtype: Any) -> Tensor:
        """Differentiable."""

    def differentiable(self, rule: Any, tensors: Sequence[Tensor]) -> tuple[Tensor, ...]:
        """rule.forward(), recorded so that gradients pass through rule.backward(): a
        hvdlite.core.gradients.Rule."""
