"""Predictions as a table or as JSON. Pure."""

from __future__ import annotations

import json
from collections.abc import Sequence

from hvdlite.tools.simulate import units
from hvdlite.tools.simulate.predict import Prediction

_HEAD = (
    "ranks",
    "hosts",
    "bandwidth",
    "compression",
    "step",
    "network",
    "waits",
    "efficiency",
    "speedup",
    "by",
)


def table(predictions: Sequence[Prediction]) -> str:
    rows = [_HEAD, *(_row(prediction) for prediction in predictions)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEAD))]
    lines = []
    for row in rows:
        cells = [cell.rjust(width) for cell, width in zip(row[:-1], widths, strict=False)]
        lines.append("  ".join([*cells, row[-1]]))
    return "\n".join(lines)


def _row(p: Prediction) -> tuple[str, ...]:
    return (
        str(p.cluster.ranks),
        str(p.cluster.hosts),
        units.bandwidth_text(p.cluster.bandwidth) if p.cluster.hosts > 1 else "-",
        p.compression,
        units.time_text(p.step),
        units.time_text(p.communication),
        f"{100 * p.waits / p.step:.0f}%",
        f"{100 * p.efficiency:.1f}%",
        f"{p.speedup:.1f}x",
        p.how,
    )


def as_json(predictions: Sequence[Prediction]) -> str:
    """Times in seconds, rates in bytes per second."""
    rows = [
        {
            "ranks": p.cluster.ranks,
            "ranks_per_host": p.cluster.local,
            "hosts": p.cluster.hosts,
            "bandwidth": p.cluster.bandwidth,
            "latency": p.cluster.latency,
            "compression": p.compression,
            "alone": p.alone,
            "computes": p.computes,
            "step": p.step,
            "communication": p.communication,
            "waits": p.waits,
            "efficiency": p.efficiency,
            "speedup": p.speedup,
            "batches": p.batches,
            "by": p.how,
        }
        for p in predictions
    ]
    return json.dumps(rows, indent=1)
