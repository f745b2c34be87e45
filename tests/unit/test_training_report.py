"""benchmarks/training_report.py and graphs_report.py: numbers in, ratios and verdicts out."""

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
    assert report.ratio({"a": _blocks(3), "b": [{"in_step": 3, "foreign": 0}]}, "a", "b", "in_step")[0] == 2


def test_the_page_tells_what_was_met_and_what_was_missed(report: Any) -> None:
    def ways(none: float, ddp: float, hvdlite: float) -> dict[str, Any]:
        return {"none": _blocks(none, none), "ddp": _blocks(ddp, ddp), "hvdlite": _blocks(hvdlite, hvdlite)}

    results = {
        "ranks": 2, "cores": 2, "rounds": 2, "scheduling": "nice -18", "machine": {"cores": "2"},
        "blocks": {"resnet50": ways(0.01, 0.07, 0.01), "mlp": ways(0.09, 0.15, 0.1), "conv": ways(0.99, 0.9, 1.0)},
        "overhead": {"empty hook": 0.3, "hvdlite": 2.5},
        "memory": {"workload": "resnet50", "kib_per_rank": {"none": 1024, "ddp": 4096, "hvdlite": 2048}},
    }  # fmt: skip
    users = report.write(results, "calm\n\n## What was missed, and why\n\nour reasons")
    assert "| 60.0 ms / 0.00 µs |" in users, "resnet50: what DDP and hvdlite take beyond the bound"
    assert "calm" in users and "our reasons" not in users and "missed" not in users
    page = report.targets_of(results, "")
    assert "| resnet50: over DDP | ≥ 6× | 7.00× | met |" in page
    assert "| mlp: share of the bound | ≥ 93 % | 90 % | **missed** |" in page
    assert "| conv: share of the bound | ≥ 93 % | 99 % | met |" in page
    assert "| conv: over DDP | ≥ 1× | 0.90× | **missed** |" in page
    assert "| overhead per gradient | ≤ 3 µs | 2.5 µs | met |" in page
    assert "| peak memory | ≤ DDP's | 0.50 of it | met |" in page


def test_the_page_of_graphs_tells_what_was_met_and_what_was_missed(report: Any) -> None:
    import graphs_report

    def ways(none: float, hvdlite: float) -> dict[str, Any]:
        return {"none": _blocks(none, none), "hvdlite": _blocks(hvdlite, hvdlite)}

    results = {
        "ranks": 2, "cores": 2, "rounds": 2, "scheduling": "nice -18", "machine": {"cores": "2"}, "versions": {"jax": "1"},
        "blocks": {
            "tensorflow gradients": ways(0.001, 0.0016), "jax gradients": ways(0.001, 0.002),
            "tensorflow mlp": ways(0.096, 0.1), "torch conv": ways(0.094, 0.1),
        },
        "first": {"jax mlp": {"none": [1.0, 1.2, 9.0], "hvdlite": [1.3, 1.4, 1.5]}, "jax conv": {"none": [4.0], "hvdlite": [3.0]}},
        "growth": {"jax": {"none": 10.0, "hvdlite": 20.0}, "tensorflow": {"none": 10.0, "hvdlite": 1000.0}},
    }  # fmt: skip
    page = graphs_report.targets_of(results, "")
    assert "| tensorflow gradients: over identity | ≤ 1.5× | 1.60× | **missed** |" in page
    assert "| tensorflow mlp: share of the bound | ≥ 95 % | 96 % | met |" in page
    assert "| torch conv: share of the bound | ≥ 95 % | 94 % | **missed** |" in page
    assert "| first step, the worst: jax mlp | < 0.5 s more | +0.20 s | met |" in page
    assert "| jax: memory kept by a step | ≤ 128 bytes more | +10 bytes | met |" in page
    assert "| tensorflow: memory kept by a step | ≤ 128 bytes more | +990 bytes | **missed** |" in page
    assert "jax gradients: over" not in page
    assert "what others did" in graphs_report.write(results, "what others did")
