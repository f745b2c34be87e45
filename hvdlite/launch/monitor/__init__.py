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

from dataclasses import dataclass

LOOPBACK = "127.0.0.1"


@dataclass(frozen=True)
class Outlets:
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
