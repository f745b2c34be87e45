"""What each rank does, for a person who waits for the job and for other programs.

    board        START HERE: turns the reports of the ranks into rows
    view         `--monitor`: the table on a terminal, or a line in a log
    screen       the bottom of a terminal
    exposition   the numbers as Prometheus reads them, and as a line of JSON
    metrics      `--metrics-port` and `--metrics-file`
    report       `--report`: writes the page

`board` and `exposition` are pure.
"""

from __future__ import annotations

from typing import NamedTuple

LOOPBACK = "127.0.0.1"


class Outlets(NamedTuple):
    """Where people and other programs find the ranks' numbers, as the command line says."""

    port: int | None = None  # None: no page; 0: any port
    address: str = LOOPBACK
    file: str | None = None
    report: str | None = None

    @property
    def details(self) -> bool:
        """Whether rank 0 should also report about tensors, versions and knobs."""
        return self.file is not None or self.report is not None

    def __bool__(self) -> bool:
        return self.port is not None or self.details


# ---- What the launcher and its ranks write for each other into the job's store

# While this key is in the job's store, ranks report. An elastic job removes the keys below monitor/
# when its ranks change.
WANTED = "reports-wanted"


class ReportRequest(NamedTuple):
    """The value of WANTED: whether ranks report, after how many seconds they look again, and the
    number of a bundle that they write once; 0: none."""

    reports: bool
    seconds: float
    dump: int

    def encode(self) -> bytes:
        return f"{self.reports:d} {self.seconds!r} {self.dump}".encode()

    @classmethod
    def decode(cls, value: bytes) -> ReportRequest:
        """Raises ValueError."""
        reports, seconds, dump = value.split()
        return cls(reports == b"1", float(seconds), int(dump))


def report_key(rank: int) -> str:
    """Returns the key of a rank's last report in the job's store."""
    return f"monitor/{rank}"
