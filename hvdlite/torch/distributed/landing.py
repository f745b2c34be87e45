"""Completes works for C++ that waits for their futures.

DDP's reducer never calls Work.wait(): it takes a future, and waits for that at the end of the
backward pass, in C++. A thread has to complete the future meanwhile. If the reducer itself has
submitted the operation, the backward pass is that thread: its final callbacks run in the order of
their submission, so ours runs before the reducer's.
"""

from __future__ import annotations

import queue
import sys
import threading
from typing import Any, Protocol

import torch

from hvdlite.torch.distributed import older

# torch's function in Python that enters autograd's C++.
_ENTRANCE = "_engine_run_backward"
_current_task: Any = torch._C._current_graph_task_id
_current_node: Any = torch._C._current_autograd_node


class Lands(Protocol):
    """A work."""

    def land(self) -> Exception | None:
        """Waits for the operation and completes the work's future. Returns the operation's
        error."""


class Landing(Protocol):
    """What completes the futures of works."""

    def take(self, work: Lands) -> None: ...


def called_by_autograd() -> bool:
    """Whether C++ has called the caller's caller, for a gradient that is complete now.

    A function in Python may wait for the future before the backward pass ends. So may a final
    callback, as DDP's for a static graph, in whose first step all gradients come at the end.
    """
    node = _current_node()
    if node is None or not node.name().endswith("AccumulateGrad"):
        return False
    try:
        return sys._getframe(2).f_code.co_name == _ENTRANCE
    except ValueError:  # a thread of autograd's own, without a frame of Python's
        return True


class ByThread:
    """A thread that completes the works of one group in the order in which it gets them."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._queue: queue.SimpleQueue[Lands | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._starts = threading.Lock()
        self._within: ByThread | None = None

    def take(self, work: Lands) -> None:
        if threading.current_thread() is self._thread:
            # A future's callback runs there, and may wait for the futures of its own operations.
            self._within = self._within or ByThread(f"{self._name}-callbacks")
            self._within.take(work)
            return
        with self._starts:
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
                self._thread.start()
        self._queue.put(work)

    def close(self) -> None:
        """The thread ends when it has completed what it has."""
        self._queue.put(None)
        if self._within is not None:
            self._within.close()

    def _run(self) -> None:
        while (work := self._queue.get()) is not None:
            work.land()


class ByBackward:
    """The end of the backward pass that has submitted the operations."""

    def __init__(self, otherwise: Landing) -> None:
        self._otherwise = otherwise
        self._works: list[Lands] = []
        self._task = -1  # the backward pass that has our callback
        self.landed = 0  # how many works it has completed
        self.kept: list[Lands] = []  # for the reducer, until another backward pass

    def take(self, work: Lands) -> None:
        task = _current_task()
        if task == -1:
            self._otherwise.take(work)
            return
        self._works.append(work)
        if task != self._task:
            torch.autograd.Variable._execution_engine.queue_callback(self._land_all)
            self._task = task

    def _land_all(self) -> None:
        # Those of an outer backward pass, too: DDP may wait at the end of an inner one.
        works, self._works, self._task = self._works, [], -1
        errors = [work.land() for work in works]
        self.landed += len(works)
        if older.FORGETS_WORKS:  # with unused parameters the reducer waits for one, behind us
            self.kept = works
        # backward() raises it as it is. DDP would raise a RuntimeError with its text.
        for error in errors:
            if error is not None:
                raise error
