"""Processes of one job that no launcher has started. The store runs in the test's process."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from launched import Job
from machine import within
from stillness import wait_until_still

from hvdlite.rendezvous.server import StoreServer

_Self = TypeVar("_Self", bound="Processes")


class Processes:
    """By their numbers; use as a context manager. Each may write lines of JSON into its report."""

    def __init__(
        self, directory: Path, make_store: Callable[[bytes], StoreServer] = StoreServer
    ) -> None:
        self.job = Job(directory)
        self.directory = directory
        self.secret = secrets.token_bytes(32)
        self.server = make_store(self.secret).start()
        self.processes: dict[int, subprocess.Popen[bytes]] = {}

    def begin(
        self, number: int, program: str, rank: int, size: int, *prefix: str,
        **more: str,
    ) -> None:  # fmt: skip
        """Starts a program as a rank of one host. `prefix`: a command before python."""
        numbers = {"RANK": rank, "SIZE": size, "LOCAL_RANK": rank, "LOCAL_SIZE": size}
        numbers |= {"CROSS_RANK": 0, "CROSS_SIZE": 1}
        environment = {f"HVDLITE_{name}": str(n) for name, n in numbers.items()} | {
            "HVDLITE_RENDEZVOUS": "[{}]:{}".format(*self.server.address),
            "HVDLITE_SECRET": self.secret.hex(),
            "OPENBLAS_NUM_THREADS": "1",
            # A rank that is held up for long is not taken for dead, and a death that only silence
            # would tell is not told.
            "HVDLITE_HEARTBEAT_SECONDS": "0",
            "HVDLITE_START_TIMEOUT": f"{within(30):g}",
        }
        with open(self.directory / f"output.{number}", "ab") as output:
            self.processes[number] = subprocess.Popen(
                [*prefix, sys.executable, program],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=self.directory,
                env=self.job.environment(**environment | more),
                preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
            )

    def wait(self, seconds: float = 30, numbers: Sequence[int] = ()) -> dict[int, int]:
        """The exit codes of these, or of all. Each has to end in time."""
        deadline = time.monotonic() + within(seconds)
        codes = {}
        for number in numbers or self.processes:
            try:
                left = max(deadline - time.monotonic(), 0.01)
                codes[number] = self.processes[number].wait(left)
            except subprocess.TimeoutExpired:
                raise AssertionError(
                    f"{number} has not ended after {within(seconds):g} s\n{self.outputs()}"
                ) from None
        return codes

    def end_well(self, seconds: float = 30, numbers: Sequence[int] = ()) -> None:
        """These, or all, with code 0."""
        codes = self.wait(seconds, numbers)
        assert set(codes.values()) == {0}, f"{codes}\n{self.outputs()}"

    def wait_until_still(self, *numbers: int) -> None:
        """Until these wait for others."""
        for number in numbers:
            wait_until_still(self.processes[number].pid)

    def told(self, number: int) -> list[dict[str, Any]]:
        """The lines of a report."""
        path = self.directory / f"report.{number}"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def outputs(self) -> str:
        paths = sorted(self.directory.glob("output.*"))
        return "\n".join(f"--- {path.name}\n{path.read_text(errors='replace')}" for path in paths)

    def close(self) -> None:
        """What this process has opened for the job."""
        self.server.close()

    def __enter__(self: _Self) -> _Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            for process in self.processes.values():
                process.kill()
        self.close()
        left = self.job.wait_until_gone(2.0)
        for pid in left:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        for process in self.processes.values():
            process.wait()
        if kind is None:
            assert not left, f"processes remain: {left}"
