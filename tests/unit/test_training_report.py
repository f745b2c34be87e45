"""benchmarks/training_report.py: numbers in, ratios out. Its pages are in test_benchmarks.py."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def report(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "benchmarks"))
    import training_report

    yield training_report
    for name in ("training_report", "graphs_report", "report", "targets", "workloads"):
        sys.modules.pop(name, None)


def _blocks(*seconds: float, foreign: float = 0.0) -> list[dict[str, float]]:
    return [{"seconds": s, "in_step": 2 * s, "foreign": foreign} for s in seconds]


def test_ratios_are_taken_within_rounds_and_disturbed_rounds_are_left_out(report: Any) -> None:
    blocks = {
        "ddp": _blocks(2, 4, 6, 8, 10),
        "hvdlite": [*_blocks(1, 2, 3, 4), *_blocks(100, foreign=0.9)],
    }
    assert report.ratio(blocks, "ddp", "hvdlite") == (2, 2, 2)
    blocks["hvdlite"] = _blocks(1, 2, 3, 4, 10, foreign=0.9)  # all disturbed: all count
    assert report.ratio(blocks, "ddp", "hvdlite")[0] == 2
    assert report.ratio({"a": _blocks(3), "b": _blocks(2)}, "a", "b") == (1.5, 1.5, 1.5)
    assert (
        report.ratio({"a": _blocks(3), "b": [{"in_step": 3, "foreign": 0}]}, "a", "b", "in_step")[0]
        == 2
    )
