"""The pictures: time by size, and everybody's time over hvdlite's by size."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import workloads

_STYLE = {
    "hvdlite": ("#c0392b", "-", 2.5),
    "hvdlite-tcp": ("#c0392b", "--", 1.5),
    "hvdlite-torch": ("#c0392b", "-.", 1.5),
    "hvdlite-pool": ("#e67e22", "-", 1.5),
    "gloo": ("#2c3e50", "-", 1.5),
    "openmpi": ("#2980b9", "-", 1.5),
    "mpich": ("#27ae60", "-", 1.5),
    "oneccl": ("#8e44ad", "-", 1.5),
    "floor": ("#7f8c8d", ":", 1.5),
}


def draw(run: Mapping[str, Any], folder: Path) -> None:
    """time-<ranks>.png and ratio-<ranks>.png, of float32. Nothing without matplotlib."""
    try:
        import matplotlib

        matplotlib.use("Agg")
        from matplotlib import pyplot
    except ImportError:
        return
    rows = [r for r in run["rows"] if r["op"] == "allreduce" and r["dtype"] == "float32"]
    names = list(rows[0]["backends"])

    def picture(name: str, label: str, key: str, shown: list[str]) -> None:
        shown = [n for n in shown if any("median" in r[key].get(n, {}) for r in rows)]
        if not shown:
            return
        figure, axes = pyplot.subplots(figsize=(7, 4.5))
        for backend in shown:
            points = [(r["bytes"], r[key].get(backend, {})) for r in rows]
            points = [(size, cell) for size, cell in points if "median" in cell]
            color, line, width = _STYLE.get(backend, (None, "-", 1.5))
            factor = 1e6 if key == "backends" else 1
            sizes = [size for size, _ in points]
            axes.plot(
                sizes,
                [c["median"] * factor for _, c in points],
                line,
                color=color,
                linewidth=width,
                label=backend,
            )
            low, high = ([c[end] * factor for _, c in points] for end in ("low", "high"))
            axes.fill_between(sizes, low, high, color=color, alpha=0.12, linewidth=0)
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        ticks = [r["bytes"] for r in rows]
        axes.set_xticks(
            ticks, [workloads.size_text(size) for size in ticks], rotation=45, ha="right"
        )
        axes.set_ylabel(label)
        axes.set_title(
            f"blocking allreduce, float32, in place, {run['ranks']} ranks of one machine",
            fontsize=10,
        )
        axes.grid(True, which="major", alpha=0.3)
        axes.legend(fontsize=8)
        figure.tight_layout()
        figure.savefig(folder / f"{name}-{run['name']}.png", dpi=110)
        pyplot.close(figure)

    picture("time", "µs", "backends", names)
    picture("ratio", "time over hvdlite's", "ratios", [n for n in names if n != "hvdlite"])
