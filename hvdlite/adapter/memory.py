"""The memory of gradients stays with the process from step to step.

zero_grad() frees all gradients, and glibc returns large freed blocks to the system. The next
backward pass gets new pages, each by a page fault: a sixth of the step of a model that is mostly
weights.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterable

from hvdlite.base import knobs

# mallopt(3)
_TRIM_THRESHOLD, _MMAP_MAX = -1, -4
# What a user may have said about it already.
_OWN_SETTINGS = (
    "MALLOC_TRIM_THRESHOLD_",
    "MALLOC_MMAP_MAX_",
    "MALLOC_MMAP_THRESHOLD_",
    "MALLOC_TOP_PAD_",
)


def keep(devices: Iterable[str]) -> bool:
    """Has glibc keep what is freed, if gradients are in host memory ("cpu") and the user has not
    said otherwise."""
    if not knobs.resolve(os.environ)["keep_memory"] or all(device != "cpu" for device in devices):
        return False
    if any(name in os.environ for name in _OWN_SETTINGS) or "glibc.malloc" in os.environ.get(
        "GLIBC_TUNABLES", ""
    ):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except AttributeError:  # another C library
        return False
    # Blocks come from the heap, and the heap never shrinks.
    return bool(mallopt(_MMAP_MAX, 0)) and bool(mallopt(_TRIM_THRESHOLD, -1))
