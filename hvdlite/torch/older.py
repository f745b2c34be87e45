"""What older versions of torch lack, in one place. The oldest that is tried is 2.1
(tests/versions)."""

from __future__ import annotations

from typing import Any

import torch

# : Tells autograd that a tensor has been overwritten, so that it refuses to use what it has saved.
# Public from 2.2 on.
has_changed = (
    getattr(torch.autograd.graph, "increment_version", None) or torch._C._increment_version
)


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
