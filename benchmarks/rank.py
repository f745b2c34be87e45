"""What all ranks that train have in common: they do as they are told, and sleep in between."""

from __future__ import annotations

import contextlib
import os
import resource
import statistics
import time
from collections.abc import Callable
from typing import Any

import channel


def prefer() -> None:
    """Before everybody else's builds, where we may. To be called first: threads that libraries
    start inherit it."""
    with contextlib.suppress(PermissionError):
        os.setpriority(os.PRIO_PROCESS, 0, -18)


def schedule(order: channel.Message) -> channel.Message:
    """As worker.py's: "fifo" as if nobody else used the cores, where that is permitted. Answers
    what was."""
    if order["wanted"] == "fifo":
        with contextlib.suppress(PermissionError):
            # Who hangs must not keep the machine: after so long without a sleep the kernel ends it.
            resource.setrlimit(resource.RLIMIT_RTTIME, (10_000_000, 10_000_000))
            for thread in os.listdir("/proc/self/task"):
                os.sched_setscheduler(int(thread), os.SCHED_FIFO, os.sched_param(10))
            return {"scheduling": "SCHED_FIFO"}
    return {"scheduling": f"nice {os.getpriority(os.PRIO_PROCESS, 0)}"}


def block(run: Callable[[], list[float]]) -> channel.Message:
    """What `run` took of the machine; it returns the seconds of each step."""
    before = resource.getrusage(resource.RUSAGE_SELF)
    began = time.perf_counter()
    seconds = run()
    elapsed = time.perf_counter() - began
    after = resource.getrusage(resource.RUSAGE_SELF)
    return {
        "seconds": statistics.median(seconds),
        "each": seconds,
        "elapsed": elapsed,
        "iterations": len(seconds),
        "user": after.ru_utime - before.ru_utime,
        "system": after.ru_stime - before.ru_stime,
        "switches": after.ru_nvcsw + after.ru_nivcsw - before.ru_nvcsw - before.ru_nivcsw,
        "faults": after.ru_minflt - before.ru_minflt,
    }


def timed(step: Callable[[], Any], steps: int) -> list[float]:
    seconds = []
    for _ in range(steps):
        start = time.perf_counter()
        step()
        seconds.append(time.perf_counter() - start)
    return seconds


def obey(trainer: Any, orders: channel.Channel, rank: int, size: int) -> None:
    """Orders are methods of the trainer. Does not return: the coordinator ends all ranks at once,
    and nobody says goodbye."""
    orders.send({"rank": rank, "size": size, "pid": os.getpid()})
    try:
        while (order := orders.receive())["op"] != "stop":
            spent = time.process_time()
            try:
                answer = (
                    schedule(order)
                    if order["op"] == "schedule"
                    else getattr(trainer, order["op"])(order)
                )
            except Exception as error:
                answer = {"error": f"{type(error).__name__}: {error}"}
            orders.send(answer | {"spent": time.process_time() - spent})
    except (EOFError, OSError):
        pass
    os._exit(0)
