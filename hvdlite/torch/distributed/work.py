"""torch's handle of an operation.

It is a class of Python, because the work that torch makes of a future swallows errors: its wait()
returns True in any case, and the caller would train with a tensor that is not reduced.
"""

from __future__ import annotations

import contextlib
import queue
import sys
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import torch
from torch import distributed as dist

from hvdlite.core import handles
from hvdlite.core.engine import Pending, run_now
from hvdlite.torch.distributed import older
from hvdlite.torch.distributed.tensors import Deliver

# ---- what completes works for C++ that waits for their futures
#
# DDP's reducer never calls Work.wait(): it takes a future, and waits for that at the end of the
# backward pass, in C++. A thread has to complete the future meanwhile. If the reducer itself has
# submitted the operation, the backward pass is that thread: its final callbacks run in the order
# of their submission, so ours runs before the reducer's.

# torch's function in Python that enters autograd's C++.
_ENTRANCE = "_engine_run_backward"
_current_task: Any = torch._C._current_graph_task_id
_current_node: Any = torch._C._current_autograd_node


def called_by_autograd() -> bool:
    """Whether C++ has called the caller, for a gradient that is complete now.

    A function in Python may wait for the future before the backward pass ends. So may a final
    callback, as DDP's for a static graph, in whose first step all gradients come at the end.
    """
    node = _current_node()
    if node is None or not node.name().endswith("AccumulateGrad"):
        return False
    frame = sys._getframe(1).f_back
    while frame is not None and frame.f_code.co_name == "allreduce":  # of a class derived from it
        frame = frame.f_back
    # None: a thread of autograd's own, without a frame of Python's
    return frame is None or frame.f_code.co_name == _ENTRANCE


class ByThread:
    """A thread that completes the works of one group in the order in which it gets them."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._queue: queue.SimpleQueue[Work | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._starts = threading.Lock()
        self._within: ByThread | None = None

    def take(self, work: Work) -> None:
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
            work.complete()


class ByBackward:
    """The end of the backward pass that has submitted the operations."""

    def __init__(self, otherwise: ByThread) -> None:
        self._otherwise = otherwise
        self._works: list[Work] = []
        self._task = -1  # the backward pass that has our callback
        self.completed = 0  # how many works it has completed
        self.kept: list[Work] = []  # for the reducer, until another backward pass

    def take(self, work: Work) -> None:
        task = _current_task()
        if task == -1:
            self._otherwise.take(work)
            return
        self._works.append(work)
        if task != self._task:
            torch.autograd.Variable._execution_engine.queue_callback(self._complete_all)
            self._task = task

    def _complete_all(self) -> None:
        # Those of an outer backward pass, too: DDP may wait at the end of an inner one.
        works, self._works, self._task = self._works, [], -1
        errors = [work.complete() for work in works]
        self.completed += len(works)
        if older.FORGETS_WORKS:  # with unused parameters the reducer waits for one, behind us
            self.kept = works
        # backward() raises it as it is. DDP would raise a RuntimeError with its text.
        for error in errors:
            if error is not None:
                raise error


# ---- the handle

_Base: Any = dist.Work  # type: ignore[attr-defined]


class Work(_Base):
    """One operation. The thread that waits for it completes it; `completer` does so for C++ that
    waits for its future.

    `deliver` copies results to where the caller wants them. `value` is the future's. `device`: of
    tensors on a GPU.
    """

    def __init__(
        self, pending: Pending | None, value: Any, completer: ByThread | ByBackward | None = None,
        deliver: Deliver | None = None, device: torch.device | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self._pending = pending  # None: it is over
        self._value = value
        self._completer = completer
        self._deliver = deliver
        self._stream = None if device is None else torch.cuda.current_stream(device)
        self._on_device: torch.cuda.Event | None = None
        self._error: Exception | None = None
        self._completes = threading.Lock()  # held by the thread that completes it
        self._future: Any = None
        self._untold: list[Any] = []  # a future whose result is still to be set
        #: Takes an error, and has put something in the place of the results; None: it is an error.
        self.forgives: Callable[[Exception], bool] | None = None

    # ---- for callers in Python and in C++

    def wait(self, timeout: timedelta | None = None) -> bool:
        """Returns True when the result is there. Raises the operation's error, or torch's own error
        after `timeout`."""
        if timeout is not None and timeout > timedelta(0):
            self._wait_until(time.monotonic() + timeout.total_seconds(), timeout)
        self._complete()
        if self._on_device is not None and self._stream is not None:
            torch.cuda.current_stream(self._stream.device).wait_event(self._on_device)
        if self._error is not None:
            raise self._error
        return True

    def synchronize(self) -> None:
        self.wait()

    def block_current_stream(self) -> None:
        self.wait()

    def is_completed(self) -> bool:
        if self._pending is None:
            return True
        if not self._completes.acquire(blocking=False):
            return False
        try:
            if self._pending is not None and not handles.is_over(self._pending):
                return False
            self._finish()
        finally:
            self._completes.release()
        self._tell()
        return True

    def is_success(self) -> bool:
        return self.is_completed() and self._error is None

    def exception(self) -> Exception | None:
        return self._error if self.is_completed() else None

    def result(self) -> Any:
        self.wait()
        return self._value

    def source_rank(self) -> int:
        return -1

    def get_future(self) -> Any:
        if self._future is None:
            devices: Any = None if self._stream is None else [self._stream.device]
            inner: torch.futures.Future[Any] = torch.futures.Future(devices=devices)
            # set_exception() would set a value for C++. An error that a callback raises is an
            # error there, too.
            self._future = inner.then(_value_or_error)
            self._untold.append(inner)
            if self._pending is None or self._completer is None:
                self._tell()
            else:
                self._completer.take(self)
        return self._future

    # ---- how it ends

    def complete(self) -> Exception | None:
        """For the completer: waits for the operation and completes the future. Returns the
        operation's error."""
        with contextlib.nullcontext() if self._stream is None else torch.cuda.stream(self._stream):
            self._complete()
        return self._error

    def _complete(self) -> None:
        """Waits for the operation, or for the thread that waits for it."""
        with self._completes:
            self._finish()
        self._tell()

    def _finish(self) -> None:
        pending = self._pending
        if pending is None:
            return
        try:
            results = run_now(pending)
            if self._deliver is not None:
                self._deliver(results if isinstance(results, tuple) else (results,))
        except Exception as error:
            # A signal handler has raised it while the operation is under way.
            if len(pending.outcomes) < len(pending.natives):
                raise
            if self.forgives is None or not self.forgives(error):
                self._error = error
        if self._stream is not None:
            self._on_device = torch.cuda.current_stream(self._stream.device).record_event()
        self._deliver = None
        self._pending = None

    def _tell(self) -> None:
        """Sets the future's result. Its callbacks run here, so the lock is free."""
        while self._untold:
            try:
                inner = self._untold.pop()
            except IndexError:  # another thread has it
                return
            inner.set_result(self._value if self._error is None else self._error)

    def _wait_until(self, deadline: float, timeout: timedelta) -> None:
        pause = 1e-5
        while not self.is_completed():
            if time.monotonic() > deadline:
                raise dist.DistBackendError(  # type: ignore[attr-defined]
                    f"an operation of the backend hvdlite has not ended within {timeout}"
                )
            time.sleep(pause)
            pause = min(2 * pause, 1e-3)


def _value_or_error(future: Any) -> Any:
    value = future.value()
    if isinstance(value, Exception):
        raise value
    return value


#: Of an operation that has ended within its call.
DONE = Work(None, [])
