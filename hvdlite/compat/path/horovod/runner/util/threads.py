"""horovod.runner.util.threads: functions in threads."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any

__all__ = ["execute_function_multithreaded", "in_thread", "on_event"]


def in_thread(
    target: Callable[..., Any],
    args: Iterable[Any] = (),
    name: str | None = None,
    daemon: bool = True,
    silent: bool = False,
) -> threading.Thread:
    """Runs target(*args) in a thread of its own. `silent`: an exception ends the thread without a
    message."""
    if not isinstance(args, tuple):
        raise ValueError(f"args must be a tuple, not {args!r}; one argument is (arg,)")

    def run() -> None:
        try:
            target(*args)
        except BaseException:
            if not silent:
                raise

    thread = threading.Thread(target=run, name=name, daemon=daemon)
    thread.start()
    return thread


def on_event(
    event: threading.Event,
    func: Callable[..., Any],
    args: Iterable[Any] = (),
    stop: threading.Event | None = None,
    check_stop_interval_s: float = 1.0,
    daemon: bool = True,
    silent: bool = False,
) -> threading.Thread:
    """Runs func(*args) in a thread once `event` is set, unless `stop` is set before that."""
    if not isinstance(event, threading.Event) or (
        stop is not None and not isinstance(stop, threading.Event)
    ):
        raise ValueError("event and stop must be a threading.Event")
    if not isinstance(args, tuple):
        raise ValueError(f"args must be a tuple, not {args!r}; one argument is (arg,)")

    def wait() -> None:
        while not event.wait(None if stop is None else check_stop_interval_s):
            if stop is not None and stop.is_set():
                return
        func(*args)

    return in_thread(wait, daemon=daemon, silent=silent)


def execute_function_multithreaded(
    fn: Callable[..., Any],
    args_list: Sequence[Sequence[Any]],
    block_until_all_done: bool = True,
    max_concurrent_executions: int = 1000,
) -> dict[int, Any] | None:
    """Calls fn(*args) for all of these in threads. Returns the results by the position of the
    arguments. Without block_until_all_done it does not wait."""
    todo: queue.SimpleQueue[tuple[int, Sequence[Any]]] = queue.SimpleQueue()
    results: dict[int, Any] = {}
    for item in enumerate(args_list):
        todo.put(item)

    def work() -> None:
        while True:
            try:
                number, args = todo.get_nowait()
            except queue.Empty:
                return
            results[number] = fn(*args)

    threads = [in_thread(work) for _ in range(min(max_concurrent_executions, len(args_list)))]
    if not block_until_all_done:
        return None
    for thread in threads:
        thread.join()
    return results
