"""Reads the file of `--metrics-file` into a history. Pure: lines in, history out."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field

from hvdlite.report.history import History


@dataclass
class Read:
    """The last job of the file."""

    history: History = field(default_factory=History)
    records: int = 0
    jobs: int = 0
    broken: int = 0  # lines that cannot be read: a full disk cuts one

    def notes(self, name: str) -> list[str]:
        said = []
        if self.jobs > 1:
            said.append(f"{name} holds {self.jobs} jobs; this is the last one.")
        if self.broken:
            said.append(f"Lines of {name} that cannot be read: {self.broken}.")
        return said


def read(lines: Iterable[str]) -> Read:
    """Raises ValueError if no line is one of `--metrics-file`."""
    found = Read()
    job = None
    for line in lines:
        if not line.strip():
            continue
        try:
            record = json.loads(line)
            began = record.get("began")
            if found.jobs == 0 or began != job:
                job, found.history, found.jobs = began, History(), found.jobs + 1
            found.history.add(record)
            found.records += 1
        except (ValueError, KeyError, TypeError, AttributeError):
            found.broken += 1
    if not found.records:
        raise ValueError("no line in it is one of --metrics-file")
    return found
