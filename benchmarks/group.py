"""The ranks of one backend: started once, told what to measure, asleep in between."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import statistics
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Any

import channel
import launch
import machine

PATIENCE = 120.0  # for one block, in seconds


class Lost(Exception):
    """The backend cannot go on."""


class Group:
    def __init__(
        self,
        backend: launch.Backend,
        ranks: int,
        program: str = "worker.py",
        pinned: bool = False,
    ) -> None:
        """`pinned`: each rank stays on a core of its own."""
        self.name = backend.name
        if reason := launch.why_not(backend):
            raise Lost(reason)
        with tempfile.TemporaryDirectory() as directory, socket.socket(socket.AF_UNIX) as door:
            door.bind(os.path.join(directory, "socket"))
            Path(directory, "shared").write_bytes(bytes(8))
            door.listen(ranks)
            door.settimeout(1.0)
            self._processes: list[subprocess.Popen[bytes]] = []
            try:
                self._processes = launch.start(
                    backend, ranks, launch.worker(backend, directory, program), pinned, directory
                )
                self._channels = [self._accept(door) for _ in range(ranks)]
                hello = [ranks_channel.receive() for ranks_channel in self._channels]
            except (OSError, EOFError, subprocess.CalledProcessError) as error:
                self.close()
                raise Lost(f"{self.name} does not start: {error}") from None
        self.pids = [message["pid"] for message in hello]
        if {message["size"] for message in hello} != {ranks}:
            self.close()
            raise Lost(f"{self.name}: expected {ranks} ranks, they say {hello}")

    def _accept(self, door: socket.socket) -> channel.Channel:
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                connected, _ = door.accept()
                break
            except TimeoutError:
                ended = [process.poll() for process in self._processes]
                if any(status is not None for status in ended) or time.monotonic() > deadline:
                    raise OSError(f"a rank did not come; exit statuses {ended}") from None
        connected.settimeout(PATIENCE)
        return channel.Channel(connected)

    def ask(self, **order: Any) -> list[channel.Message]:
        """The ranks' answers. Lost when they do not come."""
        try:
            for rank in self._channels:
                rank.send(order)
            return [rank.receive() for rank in self._channels]
        except (OSError, EOFError) as error:
            raise Lost(f"{self.name} was lost in {order}: {error}") from None

    def block(self, **order: Any) -> channel.Message:
        """One block: the slowest rank's time, everybody's CPU time, and how much the machine did
        for others."""
        with machine.Foreign() as foreign:
            answers = self.ask(**order)
            foreign.ours(sum(a.get("spent", 0.0) for a in answers))
        for answer in answers:
            if "unsupported" in answer or "error" in answer:
                return answer
        total = {
            key: sum(a[key] for a in answers) for key in ("user", "system", "switches", "faults")
        }
        slowest = {key: max(a[key] for a in answers) for key in ("seconds", "elapsed")}
        if "each" in answers[0]:  # as if every step waited for its slowest rank
            slowest["in_step"] = statistics.median(
                map(max, zip(*(a["each"] for a in answers), strict=True))
            )
        return {
            **slowest,
            **total,
            "iterations": answers[0]["iterations"],
            "foreign": foreign.share,
        }

    def close(self) -> None:
        for rank in getattr(self, "_channels", []):
            with contextlib.suppress(OSError):
                rank.send({"op": "stop"})
        deadline = time.monotonic() + 10
        for process in self._processes:
            try:
                process.wait(max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()

    def __enter__(self) -> Group:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
