"""One rank of one peer: does what the coordinator says, block by block, and sleeps in between.

    python worker.py PEER SOCKET FILE

It is started by the peer's own launcher.
"""

from __future__ import annotations

import contextlib
import importlib
import mmap
import os
import resource
import struct
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import channel
import workloads
from peers import Unsupported

LAPS = 15  # a block's time is the median of its laps


class Rank:
    def __init__(self, peer: Any, limit: str, nice: bool) -> None:
        self._peer = peer
        self._nice = nice
        # by dtype: one of the largest size, and smaller ones are views of it
        self._buffers: dict[str, Any] = {}
        self._lists: dict[tuple[str, str], dict[str, Any]] = {}
        self.rank, self.size = peer.start()
        self._limit = Limit(limit, self.rank)

    def allreduce(self, order: channel.Message) -> Callable[[], None]:
        dtype, count = order["dtype"], order["bytes"] // workloads.WIDTH[order["dtype"]]
        if dtype not in self._buffers:
            self.allocate(order)
        tensor, name, run = self._buffers[dtype][:count], f"{dtype}.{count}", self._peer.allreduce
        self._check(tensor, lambda: run(tensor, name))
        return lambda: run(tensor, name)

    def step(self, order: channel.Message) -> Callable[[], None]:
        op, dtype = order["op"], order["dtype"]
        if (op, dtype) not in self._lists:
            self._lists[op, dtype] = {
                f"{op}.{name}": self._peer.buffer(dtype, workloads.numbers(shape))
                for name, shape in workloads.STEPS[op]()
            }
        tensors, run = self._lists[op, dtype], self._peer.step
        self._check(next(iter(tensors.values())), lambda: run(tensors))
        return lambda: run(tensors)

    def _check(self, tensor: Any, run: Callable[[], None]) -> None:
        self._peer.fill(tensor, 1)
        run()
        if self._peer.first(tensor) != self.size:
            raise ValueError(f"the sum of {self.size} ones is {self._peer.first(tensor)}")
        self._peer.fill(tensor, 0)

    def idle(self, order: channel.Message) -> channel.Message:
        before = time.process_time()
        time.sleep(order["seconds"])
        return {"cpu": time.process_time() - before}

    def memory(self, order: channel.Message) -> channel.Message:
        """In KiB. The pages of the shared segment count in each of its processes."""
        lines = [line.split() for line in Path("/proc/self/status").read_text().splitlines()]
        found = {line[0]: int(line[1]) for line in lines if line[0] in ("RssAnon:", "RssShmem:")}
        return {"private": found["RssAnon:"], "shared": found["RssShmem:"]}

    def allocate(self, order: channel.Message) -> channel.Message:
        dtype = order["dtype"]
        self._buffers[dtype] = self._peer.buffer(
            dtype, max(workloads.SIZES) // workloads.WIDTH[dtype]
        )
        return {}

    def schedule(self, order: channel.Message) -> channel.Message:
        """All ranks, of all backends, before everybody else's programs; answers what was permitted.

        nice: -18, which changes little for those who sleep while they wait, but on a busy machine
        leaves two ranks that spin on one core at times. fifo: as if nobody else used the cores;
        whoever sleeps is woken much faster than programs usually are. With more ranks than cores a
        rank that spins can keep the one that it waits for from its core: both MPIs stall now and
        then, and gloo's lists of gradients for good.
        """
        found = "nice -18" if self._nice else "ordinary priority"
        with contextlib.suppress(PermissionError):
            # Who hangs must not keep the machine: after so long without a sleep the kernel ends it.
            resource.setrlimit(resource.RLIMIT_RTTIME, (10_000_000, 10_000_000))
            if order["wanted"] == "fifo":
                for thread in os.listdir("/proc/self/task"):
                    os.sched_setscheduler(int(thread), os.SCHED_FIFO, os.sched_param(10))
                found = "SCHED_FIFO"
            elif order["wanted"] == "normal":
                for thread in os.listdir("/proc/self/task"):
                    os.setpriority(os.PRIO_PROCESS, int(thread), 0)
                found = "ordinary priority"
        return {"scheduling": found}

    def obey(self, order: channel.Message) -> channel.Message:
        if order["op"] == "allreduce":
            run = self.allreduce(order)
        elif order["op"] in workloads.STEPS:
            run = self.step(order)
        else:
            answer: channel.Message = getattr(self, order["op"])(order)
            return answer
        # Before the warm-up: rank 0 starts the agreement, and the operation that follows makes
        # everybody see it.
        self._limit.start(min(LAPS, order["iterations"]), order["limit"])
        for _ in range(order["warmup"]):
            run()
        return measure(run, order["iterations"], self._limit)


class Limit:
    """An agreement to end a block early, for when its operations take far longer than they did in
    the trial.

    Rank 0 writes the lap before which all stop: one that nobody can have begun, as its operations
    need rank 0. The others have seen it by then, as the operations before it needed rank 0, too.
    """

    def __init__(self, path: str, rank: int) -> None:
        with open(path, "r+b") as file:
            self._memory = mmap.mmap(file.fileno(), 8)
        self._rank = rank

    def start(self, laps: int, seconds: float) -> None:
        if self._rank == 0:
            self._write(laps)
        self._deadline = time.perf_counter() + seconds

    def ends_before(self, lap: int) -> bool:
        last: int = struct.unpack("q", self._memory)[0]
        if self._rank == 0 and last > lap + 1 and time.perf_counter() > self._deadline:
            self._write(lap + 1)
        return lap >= last

    def _write(self, lap: int) -> None:
        self._memory[:] = struct.pack("q", lap)


def measure(run: Callable[[], None], iterations: int, limit: Limit) -> channel.Message:
    laps = min(LAPS, iterations)
    seconds: list[float] = []
    done = 0
    before = resource.getrusage(resource.RUSAGE_SELF)
    began = time.perf_counter()
    for lap in range(laps):
        if limit.ends_before(lap):
            break
        repeat = range(iterations * lap // laps, iterations * (lap + 1) // laps)
        start = time.perf_counter()
        for _ in repeat:
            run()
        seconds.append((time.perf_counter() - start) / len(repeat))
        done = repeat.stop
    elapsed = time.perf_counter() - began
    after = resource.getrusage(resource.RUSAGE_SELF)
    seconds.sort()
    return {
        "seconds": seconds[len(seconds) // 2],
        "elapsed": elapsed,
        "iterations": done,
        "user": after.ru_utime - before.ru_utime,
        "system": after.ru_stime - before.ru_stime,
        "switches": after.ru_nvcsw + after.ru_nivcsw - before.ru_nvcsw - before.ru_nivcsw,
        "faults": after.ru_minflt - before.ru_minflt,
    }


def pin() -> None:
    """To a core of its own, if the coordinator wants that."""
    if variable := os.environ.get("BENCHMARK_PINNED_BY"):
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {cores[int(os.environ[variable]) % len(cores)]})


def prefer() -> bool:
    """Before everybody else's builds, where we may."""
    try:
        os.setpriority(os.PRIO_PROCESS, 0, -18)
    except PermissionError:
        return False
    return True


def main() -> None:
    pin()  # first: threads that libraries start inherit it, and the priority
    nice = prefer()
    orders = channel.connect(sys.argv[2])
    rank = Rank(importlib.import_module(f"peers.{sys.argv[1]}"), sys.argv[3], nice)
    orders.send({"rank": rank.rank, "size": rank.size, "pid": os.getpid()})
    try:
        while (order := orders.receive())["op"] != "stop":
            spent = time.process_time()
            try:
                answer = rank.obey(order)
            except Unsupported as reason:
                answer = {"unsupported": str(reason)}
            except Exception as error:
                answer = {"error": f"{type(error).__name__}: {error}"}
            orders.send(answer | {"spent": time.process_time() - spent})
    except (EOFError, OSError):
        # the coordinator is gone; a launcher ends the other ranks, who may be waiting for this one
        os._exit(1)
    rank._peer.stop()


if __name__ == "__main__":
    main()
