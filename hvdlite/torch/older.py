"""What older versions of torch lack, in one place. The oldest that is tried is 2.1
(tests/versions)."""

from __future__ import annotations

import contextlib
from typing import Any

import torch

_increment_version: Any = torch._C._increment_version


def have_changed(tensors: tuple[torch.Tensor, ...]) -> None:
    """Tells autograd that tensors are overwritten, so that it refuses to use what it has saved."""
    for tensor in tensors:
        if not tensor.is_inference():
            _increment_version(tensor)


# Newer versions take several tensors, and leave those alone that have no version.
with contextlib.suppress(RuntimeError, TypeError), torch.inference_mode():
    _increment_version((torch.zeros(1),))
    have_changed = _increment_version


def lends_bool() -> bool:
    """By DLPack: from torch 2.2 on."""
    try:
        torch.zeros(1, dtype=torch.bool).__dlpack__()
    except RuntimeError:
        return False
    return True


class BoolByNumpy(torch.Tensor):
    """A bool tensor that numpy lends, the same memory, where torch cannot."""

    def __dlpack__(self, stream: Any = None) -> Any:  # type: ignore[override]
        return self.numpy().__dlpack__()
