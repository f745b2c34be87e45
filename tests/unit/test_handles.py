"""What becomes of a handle whose wait is interrupted, or some of whose operations fail."""

from __future__ import annotations

import os
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from hvdlite.core import handles


class Core:
    """Operations that end as told: with a result, with an exception, or not before somebody has
    been interrupted."""

    def __init__(self, **ends: Any) -> None:
        self.ends = {int(number[1:]): end for number, end in ends.items()}

    def poll(self, native: int) -> bool:
        if native not in self.ends:
            raise ValueError(f"handle {native} each handle can be synchronized once")
        return True

    def wait(self, native: int) -> Any:
        self.poll(native)
        end = self.ends[native]
        if isinstance(end, list):
            self.ends[native] = end[1]
            raise end[0]
        del self.ends[native]
        if isinstance(end, Exception):
            raise end
        return end


class FromHandler(Exception):
    pass


def _started(monkeypatch: pytest.MonkeyPatch, core: Core) -> int:
    monkeypatch.setattr(handles, "_core", core)
    return handles.new_handle(handles.Pending(list(core.ends), tuple))


@pytest.mark.parametrize("interruption", [KeyboardInterrupt, FromHandler])
def test_a_wait_goes_on_where_it_was_interrupted(
    monkeypatch: pytest.MonkeyPatch, interruption: type[BaseException]
) -> None:
    handle = _started(monkeypatch, Core(_1="one", _2=[interruption(), "two"], _3="three"))
    with pytest.raises(interruption):
        handles.synchronize(handle)
    assert handles.poll(handle)
    assert handles.synchronize(handle) == ("one", "two", "three")
    assert handles.synchronize(handle) is None


def test_the_first_error_is_raised_when_all_are_over(monkeypatch: pytest.MonkeyPatch) -> None:
    core = Core(_1="one", _2=RuntimeError("second"), _3=RuntimeError("third"), _4="four")
    handle = _started(monkeypatch, core)
    with pytest.raises(RuntimeError, match="second"):
        handles.synchronize(handle)
    assert core.ends == {}
    assert handles.synchronize(handle) is None


def test_of_two_threads_the_second_gets_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """It waits until the first has the result. Without a lock it would wait for the operation, too,
    and the first would raise what the second is told."""
    began, go_on = threading.Event(), threading.Event()

    class Slow(Core):
        def wait(self, native: int) -> Any:
            began.set()
            go_on.wait(60)
            return super().wait(native)

    handle = _started(monkeypatch, Slow(_1="one"))
    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(handles.synchronize, handle)
        began.wait(60)
        second = threads.submit(handles.synchronize, handle)
        go_on.set()
        assert first.result(60) == ("one",) and second.result(60) is None


def test_a_thread_of_the_parent_does_not_block_a_forked_child(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    handle = _started(monkeypatch, Core(_1="one"))
    with ThreadPoolExecutor(1) as pool:
        pool.submit(lambda: handles._waiting.setdefault(handle, threading.get_ident())).result(60)
        child = os.fork()
        if child == 0:
            signal.alarm(60)
            os._exit(0 if handles.synchronize(handle) == ("one",) else 1)
        assert os.waitpid(child, 0)[1] == 0
