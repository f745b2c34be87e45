"""Members of an elastic job without hvdliterun: the test is the driver, one document at a time."""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from bare_processes import Processes
from machine import within

from hvdlite.rendezvous import StoreClient, documents, last_step

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


class Members(Processes):
    """Use as a context manager. Slots are the members' numbers unless said otherwise."""

    def __init__(self, directory: Path, program: str) -> None:
        super().__init__(directory)
        self.program = self.job.script(PRELUDE + program)
        self.store = StoreClient(self.server.address, self.secret)
        self.generation = 0
        self.news = 0
        self.slots: dict[int, int] = {}
        self.tokens: dict[int, bytes] = {}

    def close(self) -> None:
        self.store.close()
        super().close()

    def start(self, number: int, size: int, slot: int | None = None, meets: bool = True) -> None:
        """`size`: the number of ranks that the process is told to expect."""
        slot = number if slot is None else slot
        self.slots[number], self.tokens[number] = slot, secrets.token_bytes(32)
        elastic = {
            "HVDLITE_ELASTIC": "1",
            "HOROVOD_ELASTIC": "1",
            "HVDLITE_MEMBER": str(number),
            "HVDLITE_SLOT": str(slot),
            "HVDLITE_MEMBER_TOKEN": self.tokens[number].hex(),
            "HVDLITE_MEMBER_MEETS": str(int(meets)),
        }
        self.begin(number, self.program, slot, size, **elastic)

    def kill(self, number: int) -> None:
        self.processes[number].kill()
        self.processes[number].wait()

    # ---- what a driver does

    def report(self, number: int, generation: int) -> documents.Report:
        data = self._get(f"elastic/report/{generation}/{number}")
        return documents.decode_report(data, self.tokens[number], number, generation)

    def gather(
        self, survivors: Iterable[int], newcomers: Iterable[int] = ()
    ) -> list[documents.Report]:
        """In the order of ranks. What newcomers have reported is taken away."""
        reports = [self.report(number, self.generation + 1) for number in survivors]
        for number in newcomers:
            reports.append(self.report(number, 0))
            self.store.delete(f"elastic/report/0/{number}")
        return reports

    def form(self, reports: list[documents.Report]) -> documents.Assignment:
        """Writes the next assignment, and waits until all its members are in."""
        written = self.write_assignment(reports)
        self.wait_until_in(written)
        return written

    def write_assignment(self, reports: list[documents.Report]) -> documents.Assignment:
        self.generation += 1
        decision = last_step.decide(reports)
        entries = []
        for r in reports:
            part = decision.roles[r.member]
            entries.append(
                documents.Entry(r.member, "here", self.slots[r.member], part, r.newcomer)
            )
        written = documents.Assignment(
            self.generation,
            tuple(entries),
            decision.position,
            decision.source,
            self.news,
            secrets.token_hex(documents.NONCE_DIGITS // 2),
        )
        self.store.set(
            f"elastic/assignment/{self.generation}", documents.encode_assignment(written)
        )
        for report in reports:
            if not report.generation:
                self.place(report.member, self.generation)
        return written

    def place(self, number: int, generation: int) -> None:
        self.store.set(f"elastic/place/{number}", str(generation).encode())

    def wait_until_in(self, written: documents.Assignment) -> None:
        for number in written.member_numbers():
            self._get(f"elastic/in/{written.generation}/{number}")

    def tell(self, **what: Any) -> None:
        self.news += 1
        told = documents.DriverNotice(self.news, self.generation, **what)
        self.store.set(f"elastic/notice/{self.news}", documents.encode_notice(told))

    def wait_for_key(self, key: str) -> None:
        self._get(key)

    def _get(self, key: str) -> bytes:
        try:
            return self.store.get(key, within(PATIENCE))
        except TimeoutError:
            raise AssertionError(f"no {key}\n{self.outputs()}") from None
