"""torch's handle of an operation.

It is a class of Python, because the work that torch makes of a future swallows errors: its wait()
returns True in any case, and the caller would train with a tensor that is not reduced.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import torch
from torch import distributed as dist

from hvdlite.core import handles
from hvdlite.core.engine import Pending, run_now
from hvdlite.torch.distributed.landing import Landing

_Base: Any = dist.Work  # type: ignore[attr-defined]
Deliver = Callable[[tuple[Any, ...]], None]


class Work(_Base):
    """One operation. The thread that waits for it completes it; `landing` completes it for C++ that
    waits for its future.

    `deliver` copies results to where the caller wants them. `value` is the future's. `device`: of
    tensors on a GPU.
    """

    def __init__(
        self,
        pending: Pending | None,
        value: Any,
        landing: Landing | None = None,
        deliver: Deliver | None = None,
        device: torch.device | None = None,
    ) -> None:
        super().__init__()
        self._pending = pending  # None: it is over
        self._value = value
        self._landing = landing
        self._deliver = deliver
        self._stream = None if device is None else torch.cuda.current_stream(device)
        self._on_device: torch.cuda.Event | None = None
        self._error: Exception | None = None
        self._completes = threading.Lock()  # held by the thread that completes it
        self._future: Any = None
        self._untold: list[Any] = []  # a future whose result is still to be set

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
            if self._pending is None or self._landing is None:
                self._tell()
            else:
                self._landing.take(self)
        return self._future

    # ---- how it ends

    def land(self) -> Exception | None:
        """For the landing: see Lands."""
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
