"""benchmarks/compression-network: what its page says of the figures."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
PAGES = ROOT / "docs" / "benchmarks"


@pytest.fixture(autouse=True)
def benchmarks_on_the_path(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    yield
    for name in ("compression_network_report", "report"):
        sys.modules.pop(name, None)


def test_the_committed_page_belongs_to_the_committed_figures() -> None:
    import compression_network_report as report

    results = json.loads((PAGES / "data" / "compression-network.json").read_text())
    notes = (ROOT / "benchmarks" / "compression_network_notes.md").read_text()
    assert (PAGES / "compression-network.md").read_text() == report.write(results, notes)


def network(megabits: int, said: str = "int8()", **seconds: float) -> dict[str, Any]:
    sent = {"dense": 100, "int8": 25, "sign": 4, "auto": 25}
    rows = [
        {"method": name, "seconds": [took, took, 9.0], "sent": sent[name] * 10**6}
        for name, took in seconds.items()
    ]
    rows[-1] |= {"said": said}
    return {"megabits": megabits, "hosts": 2, "rows": rows}


@pytest.mark.parametrize(
    ("given", "ends"),
    [
        # a step may be slower than the bytes ask for by a fifth
        (network(100, dense=8.0, int8=2.4, sign=0.5, auto=2.5),
         ["| |", "4.0 | 3.20: yes |", "25.0 | 20.00: no |", "4.0 | +4.2%: yes |"]),
        (network(100, dense=8.0, int8=2.6, sign=0.3, auto=2.8),
         ["| |", "4.0 | 3.20: no |", "25.0 | 20.00: yes |", "4.0 | +7.7%: no |"]),
        # without a limit auto must leave gradients alone, and cost nothing
        (network(0, "no compression", dense=0.1, int8=0.05, auto=0.104),
         ["| |", "4.0 |  |", "4.0 | +4.0%: yes |"]),
        (network(0, "no compression", dense=0.1, int8=0.05, auto=0.11),
         ["| |", "4.0 |  |", "4.0 | +10.0%: no |"]),
        (network(0, dense=0.1, int8=0.05, auto=0.05),
         ["| |", "4.0 |  |", "4.0 | -50.0%: no |"]),
    ],
)  # fmt: skip
def test_the_page_judges_what_was_asked_for(given: dict[str, Any], ends: list[str]) -> None:
    import compression_network_report as report

    lines = report.section("here", given).splitlines()
    rows = [line for line in lines if line.startswith(("| dense", "| int8", "| sign", "| auto"))]
    for row, end in zip(rows[1:], ends[1:], strict=True):
        assert row.endswith(end), row
