"""Gradients in host memory are allocated in memory that the ranks of this host share, which reduce them where they lie.

torch's allocator asks the core's pool first (csrc/pool/slots.h). The pool serves sizes that parameters have, and only in
a thread that computes gradients: activations and optimizer state of the same size stay outside. Whatever does not fit is
left to the C library and reduced as ever, so the pool decides about time alone.
"""

from __future__ import annotations

import logging
import os
import threading
import weakref
from collections import Counter
from collections.abc import Iterable, Mapping

import torch

from hvdlite.base import knobs
from hvdlite.core import engine

# What torch's libraries export; both take no type of torch.
_ALLOCATOR = "_ZN3c109alloc_cpuEm"  # c10::alloc_cpu(unsigned long)
_GATE = "_ZN5torch8autograd25get_current_graph_task_idEv"  # torch::autograd::get_current_graph_task_id()
_OUTSIDE = -1  # what the latter returns outside a backward pass

#: Smaller gradients are copied, all of them together.
SMALLEST = 16 << 10

_log = logging.getLogger("hvdlite")
_lock = threading.Lock()
_why_off: str | None = None  # after the first use(); empty: the pool is in use


def use(parameters: Iterable[torch.Tensor], owner: object) -> bool:
    """Allocates the gradients of these parameters in the pool, as long as the owner lives, if the user has asked for it."""
    if not knobs.resolve(os.environ)["gradient_pool"]:
        return False
    sizes = _sizes(parameters)
    if not sizes:
        return False
    with _lock:
        if not _started():
            return False
        _expect(sizes, 1)
    weakref.finalize(owner, _expect, sizes, -1).atexit = False
    return True


def _sizes(parameters: Iterable[torch.Tensor]) -> Counter[int]:
    """How many gradients of each size there will be in host memory."""
    trained = (each for each in parameters if each.requires_grad and each.device.type == "cpu")
    sizes = Counter(each.numel() * each.element_size() for each in trained)
    return Counter({size: count for size, count in sizes.items() if size >= SMALLEST})


def _expect(sizes: Mapping[int, int], sign: int) -> None:
    for size, count in sizes.items():
        engine.pool_expect(size, sign * count)


def _started() -> bool:
    global _why_off
    if _why_off is None:
        _why_off = _start()
        if _why_off:
            _log.warning("gradients are not allocated in shared memory (HVDLITE_GRADIENT_POOL=1): %s", _why_off)
    return not _why_off


def _start() -> str:
    """Why the pool stays off; empty: it is on."""
    try:
        engine.pool_patch(torch._C.__file__, _ALLOCATOR, _GATE, _OUTSIDE)
        engine.pool_arm(True)
        why = _test()
    except (NotImplementedError, RuntimeError) as error:
        why = str(error)
    engine.pool_arm(not why)
    return why


def contains(tensor: torch.Tensor) -> bool:
    """Whether the tensor lies in the pool."""
    return engine.pool_offset(tensor.data_ptr()) >= 0


def _test() -> str:
    """Whether torch allocates, and frees, as is assumed here. Empty: it does."""
    size = SMALLEST + 64 * 37  # which no model has, most likely
    engine.pool_expect(size, 1)
    try:
        before = engine.pool_stats()
        parameter = torch.ones(size // 4, dtype=torch.float32, device="cpu", requires_grad=True)
        with torch.enable_grad():
            (parameter * 2.0).sum().backward()
        gradient = parameter.grad
        if gradient is None or not contains(gradient):
            return "a gradient was allocated elsewhere; does this torch allocate in another way?"
        if not torch.equal(gradient, torch.full_like(gradient, 2.0)):
            return "a gradient there had a wrong value"
        if contains(parameter) or contains(torch.empty_like(parameter)):
            return "a tensor that is no gradient was allocated there"
        parameter.grad = gradient = None
        if engine.pool_stats().live != before.live:
            return "torch did not free a gradient there"
    finally:
        engine.pool_expect(size, -1)
    return ""
