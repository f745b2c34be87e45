"""Ranks without a launcher: so that nobody ends them when one dies, and what they notice by
themselves can be measured.

The store runs in the test's process. Every process of a job carries a mark in its environment, by
which it is found again.
"""

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
from typing import Any

from launched import MARK, ROOT, Job
from machine import PATIENCE, within
from stillness import wait_until_still

from hvdlite.rendezvous import StoreClient
from hvdlite.rendezvous.server import StoreServer

# The others know of a death within this, which is a fraction of a second. Without heartbeats, which
# these ranks do not have, a death that nothing tells is never known.
PROMPT = 5.0

# What every rank's program begins with; see `program`. `tell` appends a line to the rank's report;
# times are CLOCK_MONOTONIC, which all processes of a machine share.
_PRELUDE = """
import faulthandler, json, os, signal, sys, threading, time
def within(seconds):
    return seconds * PATIENCE
# By a signal: faulthandler's own timer would keep a forked child from ending.
faulthandler.register(signal.SIGALRM, chain=True)
def end_after(seconds):
    signal.alarm(int(within(seconds)))
end_after(45)
import numpy as np
import hvdlite as hvd
RANK, SIZE = int(os.environ["HVDLITE_RANK"]), int(os.environ["HVDLITE_SIZE"])
OTHERS = [rank for rank in range(SIZE) if rank != RANK]
_report = open(f"report.{RANK}", "a", buffering=1)
def tell(**what):
    what.setdefault("at", time.monotonic())
    _report.write(json.dumps(what) + "\\n")
def flag(name):
    open(name, "w").close()
def wait_flag(name, seconds=20):
    end = time.monotonic() + within(seconds)
    while not os.path.exists(name):
        assert time.monotonic() < end, f"no {name}"
        time.sleep(0.002)  # poll
def wait_for_others(name):
    # Until each of them has raised its flag.
    for rank in OTHERS:
        wait_flag(f"{name}.{rank}")
def wait_until_inside(threads=1):
    # Until so many threads wait in the native core, besides the one that is always there. What they
    # wait for has been submitted.
    while hvd._core.threads_inside() < 1 + threads:
        time.sleep(0.002)  # poll
def flag_when_inside(name=f"inside.{RANK}"):
    # To be called before an operation that others do not take part in yet.
    threading.Thread(target=lambda: (wait_until_inside(), flag(name)), daemon=True).start()
def outlive(flag):
    # As a child that knows nothing of the job: until the test has seen what it wants to see, and
    # not for ever.
    end = time.monotonic() + within(60)
    while not os.path.exists(flag) and time.monotonic() < end:
        time.sleep(0.05)  # poll
    os._exit(0)
def until_it_fails(work, seconds=20):
    end = time.monotonic() + within(seconds)
    try:
        while time.monotonic() < end:
            work()
    except hvd.HorovodInternalError as error:
        tell(error=type(error).__name__, text=str(error), peer=getattr(error, "rank", None))
        return error
    tell(error=None)
"""


def program(text: str) -> str:
    """What a rank runs."""
    return f"PATIENCE = {PATIENCE:g}\n{_PRELUDE}{text}"


class Ranks:
    """N processes of one job; use as a context manager."""

    def __init__(
        self,
        directory: Path,
        size: int,
        hosts: Sequence[str] = (),
        make_store: Callable[[bytes], StoreServer] = StoreServer,
    ) -> None:
        self.job = Job(directory)
        self.directory = directory
        self.size = size
        self.hosts = hosts
        self.secret = secrets.token_bytes(32)
        self.server = make_store(self.secret).start()
        self.programs = 0
        self.processes: dict[int, subprocess.Popen[bytes]] = {}

    def start(
        self,
        text: str,
        ranks: Sequence[int] | None = None,
        prefix: Sequence[str] = (),
        **extra: str,
    ) -> None:
        """Runs `program(text)` on all ranks, or on these. `prefix`: a command before python."""
        path = self.directory / f"program.{self.programs}.py"
        self.programs += 1
        path.write_text(program(text))
        for rank in range(self.size) if ranks is None else ranks:
            numbers = {"RANK": rank, "SIZE": self.size, "LOCAL_RANK": rank, "LOCAL_SIZE": self.size}
            identity = {f"HVDLITE_{name}": str(n) for name, n in numbers.items()}
            identity |= {
                "HVDLITE_CROSS_RANK": "0",
                "HVDLITE_CROSS_SIZE": "1",
                "HVDLITE_RENDEZVOUS": "[{}]:{}".format(*self.server.address),
                "HVDLITE_SECRET": self.secret.hex(),
                "OPENBLAS_NUM_THREADS": "1",
                # A rank that is held up for long is not taken for dead, and a death that only
                # silence would tell is not told.
                "HVDLITE_HEARTBEAT_SECONDS": "0",
                "HVDLITE_START_TIMEOUT": f"{within(30):g}",
            }
            if self.hosts:
                identity["HVDLITE_HOST_ID"] = self.hosts[rank]
            with open(self.directory / f"output.{rank}", "ab") as output:
                self.processes[rank] = subprocess.Popen(
                    [*prefix, sys.executable, str(path)],
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    cwd=self.directory,
                    env=self.job.environment(**identity | extra),
                    preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
                )

    def wait(self, seconds: float = 30) -> dict[int, int]:
        """All exit codes; a rank that does not end in time is a failure."""
        deadline = time.monotonic() + within(seconds)
        for rank, process in self.processes.items():
            try:
                process.wait(max(deadline - time.monotonic(), 0.01))
            except subprocess.TimeoutExpired:
                raise AssertionError(
                    f"rank {rank} has not ended after {within(seconds):g} s\n{self.outputs()}"
                ) from None
        return {rank: process.returncode for rank, process in self.processes.items()}

    def end_well(self, seconds: float = 30) -> None:
        """All of them, with code 0."""
        codes = self.wait(seconds)
        assert set(codes.values()) == {0}, f"{codes}\n{self.outputs()}"

    def all_end_well(
        self, text: str, prefix: Sequence[str] = (), seconds: float = 30, **extra: str
    ) -> None:
        """Runs `program(text)` on all ranks, and waits until all have ended with code 0."""
        self.start(text, prefix=prefix, **extra)
        self.end_well(seconds)

    def wait_for_flags(self, *names: str, seconds: float = 20) -> None:
        self.job.wait_for_files(names, seconds)

    def wait_for_members(self, *members: int, attempt: int = 0) -> None:
        """Until these have told the store where they are."""
        with StoreClient(self.server.address, self.secret) as store:
            for rank in members:
                store.get(f"init/{attempt}/member/{rank}", within(20))

    def wait_until_still(self, *ranks: int) -> None:
        """Until these wait for others."""
        for rank in ranks:
            wait_until_still(self.processes[rank].pid)

    def kill(self, rank: int, number: int = signal.SIGKILL) -> float:
        """Sends the signal; returns when."""
        at = time.monotonic()
        os.kill(self.processes[rank].pid, number)
        return at

    def expect_named(self, rank: int, victim: int, death: float, seconds: float = PROMPT) -> None:
        """This rank has been told in time who died."""
        told = self.last(rank)
        assert told.get("error") == "PeerLostError", f"rank {rank}: {told}\n{self.outputs()}"
        assert f"rank {victim}" in told["text"] and told["peer"] == victim, told
        took = told["at"] - death
        assert took < within(seconds), (
            f"rank {rank} heard of the death of rank {victim} after {took:.2f} s: {told}"
        )

    def all_hear_of(self, victim: int) -> None:
        """In time after what the victim has told last."""
        for rank in set(range(self.size)) - {victim}:
            self.expect_named(rank, victim, self.last(victim)["at"])

    def report(self, rank: int) -> list[dict[str, Any]]:
        path = self.directory / f"report.{rank}"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def last(self, rank: int) -> dict[str, Any]:
        """The last line that a rank has told."""
        lines = self.report(rank)
        assert lines, f"rank {rank} told nothing\n{self.outputs()}"
        return lines[-1]

    def outputs(self) -> str:
        parts = []
        for rank in range(self.size):
            path = self.directory / f"output.{rank}"
            parts.append(
                f"--- rank {rank}\n{path.read_text(errors='replace') if path.exists() else ''}"
            )
        return "\n".join(parts)

    def __enter__(self) -> Ranks:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            for process in self.processes.values():
                process.kill()
        self.server.close()
        left = self.job.wait_until_gone(2.0)
        for pid in left:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        for process in self.processes.values():
            process.wait()
        if kind is None:
            assert not left, f"processes remain: {left}"


__all__ = ["MARK", "PROMPT", "ROOT", "Ranks", "program"]
