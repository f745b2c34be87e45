"""Members of an elastic job without hvdliterun: the test is the driver, one document at a time."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import signal
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from launched import Job
from machine import within
from stillness import wait_until_still

from hvdlite.rendezvous import StoreClient, last_step, roll
from hvdlite.rendezvous.server import StoreServer

PATIENCE = 20.0

# What every member's program begins with. `tell` appends a line to the member's report.
PRELUDE = """
import json, os, signal, sys, threading
import numpy as np
MEMBER = int(os.environ["HVDLITE_MEMBER"])
_report = open(f"report.{MEMBER}", "a", buffering=1)
def tell(**what):
    _report.write(json.dumps({"pid": os.getpid(), **what}) + "\\n")
def flag(name):
    open(name, "w").close()
def wait_to_be_killed():
    flag(f"waits.{MEMBER}")
    while True: signal.pause()
"""


class Members:
    """Use as a context manager. Slots are the members' numbers unless said otherwise."""

    def __init__(self, directory: Path, program: str) -> None:
        self.job = Job(directory)
        self.directory = directory
        self.program = self.job.script(PRELUDE + program)
        self.secret = secrets.token_bytes(32)
        self.server = StoreServer(self.secret).start()
        self.store = StoreClient(self.server.address, self.secret)
        self.generation = 0
        self.news = 0
        self.slots: dict[int, int] = {}
        self.tokens: dict[int, bytes] = {}
        self.processes: dict[int, subprocess.Popen[bytes]] = {}

    # ---- processes

    def start(self, number: int, size: int, slot: int | None = None, meets: bool = True) -> None:
        """`size`: the number of ranks that the process is told to expect."""
        slot = number if slot is None else slot
        self.slots[number], self.tokens[number] = slot, secrets.token_bytes(32)
        numbers = {"RANK": slot, "SIZE": size, "LOCAL_RANK": slot, "LOCAL_SIZE": size}
        environment = {f"HVDLITE_{name}": str(n) for name, n in numbers.items()}
        environment |= {
            "HVDLITE_CROSS_RANK": "0",
            "HVDLITE_CROSS_SIZE": "1",
            "HVDLITE_RENDEZVOUS": "[{}]:{}".format(*self.server.address),
            "HVDLITE_SECRET": self.secret.hex(),
            "HVDLITE_ELASTIC": "1",
            "HOROVOD_ELASTIC": "1",
            "HVDLITE_MEMBER": str(number),
            "HVDLITE_SLOT": str(slot),
            "HVDLITE_MEMBER_TOKEN": self.tokens[number].hex(),
            "HVDLITE_MEMBER_MEETS": str(int(meets)),
            "HVDLITE_HEARTBEAT_SECONDS": "0",
            "HVDLITE_START_TIMEOUT": f"{within(30):g}",
            "OPENBLAS_NUM_THREADS": "1",
        }
        with open(self.directory / f"output.{number}", "ab") as output:
            self.processes[number] = subprocess.Popen(
                [sys.executable, self.program],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=self.directory,
                env=self.job.environment(**environment),
            )

    def kill(self, number: int) -> None:
        self.processes[number].kill()
        self.processes[number].wait()

    def wait_until_still(self, number: int) -> None:
        """Until it waits for others."""
        wait_until_still(self.processes[number].pid)

    def end_well(self, *numbers: int) -> None:
        """All of these, with code 0."""
        codes = {number: self.processes[number].wait(within(PATIENCE)) for number in numbers}
        assert set(codes.values()) == {0}, f"{codes}\n{self.outputs()}"

    # ---- what a driver does

    def report(self, number: int, generation: int) -> roll.Report:
        data = self._get(f"elastic/report/{generation}/{number}")
        return roll.decode_report(data, self.tokens[number], number, generation)

    def gather(self, survivors: Iterable[int], newcomers: Iterable[int] = ()) -> list[roll.Report]:
        """In the order of ranks. What newcomers have reported is taken away."""
        reports = [self.report(number, self.generation + 1) for number in survivors]
        for number in newcomers:
            reports.append(self.report(number, 0))
            self.store.delete(f"elastic/report/0/{number}")
        return reports

    def form(self, reports: list[roll.Report]) -> roll.Roll:
        """Writes the next roll, and waits until all its members are in."""
        written = self.write_roll(reports)
        self.wait_until_in(written)
        return written

    def write_roll(self, reports: list[roll.Report]) -> roll.Roll:
        self.generation += 1
        decision = last_step.decide(reports)
        entries = []
        for r in reports:
            part = decision.parts[r.member]
            entries.append(roll.Entry(r.member, "here", self.slots[r.member], part, r.newcomer))
        written = roll.Roll(
            self.generation,
            tuple(entries),
            decision.position,
            decision.source,
            self.news,
            secrets.token_hex(roll.NONCE_DIGITS // 2),
        )
        self.store.set(f"elastic/roll/{self.generation}", roll.encode_roll(written))
        for report in reports:
            if not report.generation:
                self.place(report.member, self.generation)
        return written

    def place(self, number: int, generation: int) -> None:
        self.store.set(f"elastic/place/{number}", str(generation).encode())

    def wait_until_in(self, written: roll.Roll) -> None:
        for number in written.numbers():
            self._get(f"elastic/in/{written.generation}/{number}")

    def tell(self, **what: Any) -> None:
        self.news += 1
        told = roll.News(self.news, self.generation, **what)
        self.store.set(f"elastic/news/{self.news}", roll.encode_news(told))

    def wait_for_key(self, key: str) -> None:
        self._get(key)

    def _get(self, key: str) -> bytes:
        try:
            return self.store.get(key, within(PATIENCE))
        except TimeoutError:
            raise AssertionError(f"no {key}\n{self.outputs()}") from None

    # ---- what members say

    def told(self, number: int) -> list[dict[str, Any]]:
        path = self.directory / f"report.{number}"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def outputs(self) -> str:
        paths = sorted(self.directory.glob("output.*"))
        return "\n".join(f"--- {path.name}\n{path.read_text(errors='replace')}" for path in paths)

    def __enter__(self) -> Members:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            for process in self.processes.values():
                process.kill()
        self.store.close()
        left = self.job.wait_until_gone(2.0)
        self.server.close()
        for pid in left:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        for process in self.processes.values():
            process.wait()
        if kind is None:
            assert not left, f"processes remain: {left}"
