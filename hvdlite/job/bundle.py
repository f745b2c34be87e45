"""Writes this rank's part of a bundle (HVDLITE_STALL_DUMP), for `hvdlite explain`.

What cannot be written costs one line of the log; the job goes on.
"""

from __future__ import annotations

import datetime
import hashlib
import logging
import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from hvdlite.base import bundle, private_file
from hvdlite.job import frames, observe
from hvdlite.job.versions import versions

_log = logging.getLogger("hvdlite")


@dataclass(frozen=True)
class Seen:
    """What was seen when the rank was asked. The verdict comes later."""

    place: str
    stacks: list[bundle.Stack]


@dataclass
class Writer:
    """`folder`: of this job's bundle; all its ranks know it."""

    folder: str
    rank: int
    size: int
    knobs: Mapping[str, Any] = field(default_factory=dict)

    def write(self, event: str, verdict: str, seen: Seen) -> None:
        part = bundle.Part(
            event, verdict, self.rank, self.size, socket.gethostname(), os.getpid(),
            datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="milliseconds"),
            seen.place, seen.stacks, observe.recent_operations(), observe.metrics(),
            bundle.shown_environment(os.environ), dict(self.knobs), versions(),
        )  # fmt: skip
        try:
            os.makedirs(self.folder, 0o700, exist_ok=True)
            private_file.write(os.path.join(self.folder, part.file_name), part.encode())
        except OSError as error:
            _log.warning(
                "This rank's part of the bundle cannot be written to %s: %s. The job goes on.",
                self.folder, error.strerror,
            )  # fmt: skip
            return
        if self.rank == 0 or event == "asked":
            _log.warning(
                "A bundle of this job is in %s: `hvdlite explain %s` shows it.",
                self.folder, self.folder,
            )  # fmt: skip


def look() -> Seen:
    """What the program does now."""
    return Seen(frames.of_main_thread().text, frames.stacks())


def job_name(place: tuple[tuple[str, int], bytes] | None, prefix: str) -> str:
    """A name that all ranks of this job know, and that no other job has. `place`: of the job's
    store; None: this process is alone. `prefix`: of the job's keys there, with the generation of an
    elastic job, whose ranks have other numbers in the next one."""
    if place is None:
        return f"pid{os.getpid()}"
    (_, port), secret = place
    told = f"{port}{prefix}".encode()
    return hashlib.sha256(b"hvdlite bundle" + secret + told).hexdigest()[:12]
