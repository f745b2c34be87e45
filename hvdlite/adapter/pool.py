"""Gradients in host memory are allocated in memory that the ranks of this host share, which reduce
them where they lie.

A framework's allocator asks the core's pool first (csrc/pool/slots.h). The pool serves sizes that
parameters have, and only in a thread that computes gradients: activations and optimizer state of
the same size stay outside. The C library serves whatever does not fit, and the core reduces it by
copies, so the pool decides about time alone.

The pool is switched on when there are gradients to allocate and another rank of this host to share
them with. In an elastic job that rank may come later.
"""

from __future__ import annotations

import ctypes
import logging
import os
import threading
import weakref
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from hvdlite.base import knobs
from hvdlite.core import engine
from hvdlite.job import basics

#: Smaller gradients are copied, all of them together.
SMALLEST = 16 << 10
# Of the gradient that tries the pool: no model has it, most likely.
_TRIED = SMALLEST + 64 * 37

_log = logging.getLogger("hvdlite")


def contains(address: int) -> bool:
    """Whether that memory is in the pool."""
    return engine.pool_offset(address) >= 0


@dataclass(frozen=True)
class Framework:
    """What the pool must know of a framework."""

    module: str  # the path of a loaded library that uses the framework's allocator
    allocator: str  # a symbol that the allocating library alone defines
    gate: str  # a symbol: int f(), which returns `outside` unless the thread computes gradients
    outside: int
    # Computes a gradient of so many bytes. Returns it, and a tensor of that size that is no
    # gradient.
    compute: Callable[[int], tuple[Any, Any]]
    address: Callable[[Any], int]


class Pool:
    """The use that a framework makes of the pool."""

    def __init__(self, framework: Framework) -> None:
        self.framework = framework
        self._lock = threading.Lock()
        self._is_on = False
        self._said = ""
        self._owners: weakref.WeakSet[object] = weakref.WeakSet()  # of the gradients
        basics.each_time_joined(self._switch_on)

    def use(self, sizes: Iterable[int], owner: object) -> bool:
        """Has gradients of these sizes allocated in the pool while the owner lives, as soon as
        ranks of this host can share them. Returns whether they can now."""
        counts = Counter(size for size in sizes if size >= SMALLEST)
        if not counts or not knobs.resolve(os.environ)["gradient_pool"]:
            return False
        self._owners.add(owner)
        _expect(counts, 1)
        weakref.finalize(owner, _expect, counts, -1).atexit = False
        return self._switch_on()

    @contextmanager
    def takes_all(self, owner: object) -> Iterator[None]:
        """What this thread allocates meanwhile lies in the pool, if ranks of this host can share it
        by now. The owner, which lives as long, is a reason to switch the pool on."""
        self._owners.add(owner)
        if not knobs.resolve(os.environ)["gradient_pool"] or not self._switch_on():
            yield
            return
        engine.pool_take_all(True)
        try:
            yield
        finally:
            engine.pool_take_all(False)

    def _switch_on(self) -> bool:
        with self._lock:
            if self._is_on:
                return True
            if not self._owners or engine.local_size() < 2:
                return False
            why = self._start()
            self._is_on = not why
            if why not in ("", self._said):
                # Gradients are copied instead, so only a user who asks for the pool is told.
                asked = knobs.is_set("gradient_pool", os.environ)
                _log.log(
                    logging.WARNING if asked else logging.DEBUG,
                    "gradients are not allocated in shared memory (HVDLITE_GRADIENT_POOL): %s",
                    why,
                )
                self._said = why
            return self._is_on

    def _start(self) -> str:
        """Why the pool stays off; empty: it is on."""
        its = self.framework
        engine.pool_expect(_TRIED, 1)
        try:
            engine.pool_patch(its.module, its.allocator, its.gate, its.outside)
            engine.pool_arm(True)
            why = self._try()
        except Exception as error:  # an unexpected framework, which works without the pool
            why = str(error)
        finally:
            engine.pool_expect(_TRIED, -1)
        engine.pool_arm(not why)
        return why

    def _try(self) -> str:
        """Whether the framework allocates, and frees, as is assumed. Empty: it does."""
        before = engine.pool_stats().live
        gradient, other = self.framework.compute(_TRIED)
        if not contains(self.framework.address(gradient)):
            return "this version of the framework allocated a gradient elsewhere"
        if contains(self.framework.address(other)):
            return "a tensor that is not a gradient was allocated there"
        del gradient, other
        return "" if engine.pool_stats().live == before else "a gradient there was not freed"


def _expect(counts: Mapping[int, int], sign: int) -> None:
    for size, count in counts.items():
        engine.pool_expect(size, sign * count)


# ---- memory that stays with the process from step to step
#
# zero_grad() frees all gradients, and glibc returns large freed blocks to the system. The next
# backward pass gets new pages, each by a page fault: a sixth of the step of a model that is mostly
# weights.

# mallopt(3)
_TRIM_THRESHOLD, _MMAP_MAX = -1, -4
# What a user may have said about it already.
_OWN_SETTINGS = (
    "MALLOC_TRIM_THRESHOLD_",
    "MALLOC_MMAP_MAX_",
    "MALLOC_MMAP_THRESHOLD_",
    "MALLOC_TOP_PAD_",
)


def keep_memory(devices: Iterable[str]) -> bool:
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
