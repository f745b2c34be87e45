"""Ranks without a launcher: so that nobody ends them when one dies, and what they notice by
themselves can be measured.

The store runs in the test's process. Every process of a job carries a mark in its environment, by
which it is found again.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any

from bare_processes import Processes
from launched import MARK, ROOT
from machine import PATIENCE, within

from hvdlite.exceptions import Cause
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
        tell(error=type(error).__name__, text=str(error), peer=getattr(error, "rank", None),
             loss=getattr(error, "loss", None))
        return error
    tell(error=None)
"""


def program(text: str) -> str:
    """What a rank runs."""
    return f"PATIENCE = {PATIENCE:g}\n{_PRELUDE}{text}"


class Ranks(Processes):
    """All ranks of one job."""

    def __init__(
        self,
        directory: Path,
        size: int,
        hosts: Sequence[str] = (),
        make_store: Callable[[bytes], StoreServer] = StoreServer,
    ) -> None:
        super().__init__(directory, make_store)
        self.size = size
        self.hosts = hosts
        self.programs = 0

    def start(
        self,
        text: str,
        ranks: Sequence[int] | None = None,
        prefix: Sequence[str] = (),
        **extra: str,
    ) -> None:
        """Runs `program(text)` on all ranks, or on these. `prefix`: a command before python."""
        path = self.job.script(program(text), f"program.{self.programs}.py")
        self.programs += 1
        for rank in range(self.size) if ranks is None else ranks:
            host = {"HVDLITE_HOST_ID": self.hosts[rank]} if self.hosts else {}
            self.begin(rank, path, rank, self.size, *prefix, **host | extra)

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

    def kill(self, rank: int, number: int = signal.SIGKILL) -> float:
        """Sends the signal; returns when."""
        at = time.monotonic()
        os.kill(self.processes[rank].pid, number)
        return at

    def expect_loss(self, rank: int, causes: Collection[Cause], *concerned: int) -> None:
        """What programs read, beside the sentence: one of these causes."""
        told = self.last(rank)
        cause, ranks = told["loss"]
        assert cause in causes and ranks == list(concerned), told

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

    def last(self, rank: int) -> dict[str, Any]:
        """The last line that a rank has told."""
        lines = self.told(rank)
        assert lines, f"rank {rank} told nothing\n{self.outputs()}"
        return lines[-1]


__all__ = ["MARK", "PROMPT", "ROOT", "Ranks", "program"]
