"""What pytest tells scripts/test while it runs: a line of JSON for each test that has ended, in the
file HVDLITE_TEST_REPORT."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

VARIABLE = "HVDLITE_TEST_REPORT"


class Reporter:
    def __init__(self, path: str) -> None:
        self._file = Path(path).open("a", buffering=1)  # noqa: SIM115
        self._seconds: dict[str, float] = {}
        self._cpu = 0.0  # of this process and its children, when the test began

    def _tell(self, test: str, outcome: str, seconds: float = 0.0, text: str = "") -> None:
        event = {"test": test, "outcome": outcome, "seconds": seconds, "text": text}
        event["cpu"] = round(_cpu_seconds() - self._cpu, 3)
        self._file.write(json.dumps(event) + "\n")

    def pytest_runtest_logstart(self) -> None:
        self._cpu = _cpu_seconds()

    def pytest_collectstart(self) -> None:
        self._cpu = _cpu_seconds()

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self._tell(report.nodeid, "failed", text=report.longreprtext)
        elif report.skipped:
            self._tell(report.nodeid, "skipped", text=_reason(report))

    def pytest_deselected(self, items: list[pytest.Item]) -> None:
        for item in items:
            self._tell(item.nodeid, "deselected")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        seconds = self._seconds.get(report.nodeid, 0.0) + report.duration
        self._seconds[report.nodeid] = seconds
        if report.failed:
            self._tell(report.nodeid, "failed", seconds, report.longreprtext)
        elif report.skipped:
            self._tell(report.nodeid, "skipped", seconds, _reason(report))
        elif report.when == "call":
            self._tell(report.nodeid, "passed", seconds)


def _cpu_seconds() -> float:
    return sum(os.times()[:4])


def _reason(report: pytest.CollectReport | pytest.TestReport) -> str:
    where = report.longrepr
    text = where[2] if isinstance(where, tuple) else str(where)
    return text.removeprefix("Skipped: ")
