"""The pictures of docs/guides/compression.md and communicating-less.md, from measurements that are
there.

    python benchmarks/less_pictures.py     writes docs/benchmarks/less-*.png; needs matplotlib
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean, median
from typing import Any

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "benchmarks"
_COLOURS = ("#7f8c8d", "#2980b9", "#c0392b", "#e67e22", "#27ae60", "#8e44ad")
#: Methods of the networks' picture.
_METHODS = ("dense", "fp16", "int8", "sign", "topk 0.1 %", "dgc 0.1 %")


def _loaded(name: str) -> Any:
    return json.loads((FOLDER / "data" / f"{name}.json").read_text())


def accuracies() -> list[tuple[str, float, dict[int, float]]]:
    """Method, fewer bytes, accuracy by epochs: compressions, and local steps in jobs."""
    found = [
        (
            method,
            row["60"]["ratio"],
            {int(epochs): fmean(row[epochs]["accuracy"]) for epochs in row},
        )
        for method, row in _loaded("compression")["rows"].items()
    ]
    jobs: dict[str, list[Any]] = {}
    for row in _loaded("accuracy")["rows"]:
        if row["method"].startswith(("LocalSGD", "DiLoCo")):
            jobs.setdefault(row["method"], []).append(row)
    for method, rows in jobs.items():
        plain = method.removesuffix(", 6 epochs")
        if plain != method:
            continue
        short = jobs.get(f"{method}, 6 epochs", [])
        means = {60: fmean(row["accuracy"] for row in rows)}
        if short:
            means[6] = fmean(row["accuracy"] for row in short)
        found.append((method, fmean(row["ratio"] for row in rows), means))
    return sorted(found, key=lambda each: -each[1])


def steps() -> list[tuple[str, list[tuple[str, float]]]]:
    """By network: methods with the median of their steps, in seconds."""
    networks = _loaded("compression-network")["networks"]
    return [
        (name, [(row["method"], median(row["seconds"])) for row in network["rows"]
                if row["method"] in _METHODS])
        for name, network in networks.items()
    ]  # fmt: skip


def draw_accuracies(pyplot: Any) -> None:
    rows = accuracies()
    figure, axes = pyplot.subplots(figsize=(8, 0.28 * len(rows) + 1.2))
    for epochs, marker, colour in ((60, "o", _COLOURS[1]), (6, "D", _COLOURS[3])):
        shown = [
            (means[epochs], place) for place, (_, _, means) in enumerate(rows) if epochs in means
        ]
        axes.plot(
            [accuracy for accuracy, _ in shown], [place for _, place in shown], marker,
            color=colour, label=f"{epochs} epochs",
        )  # fmt: skip
    names = [f"{method} ({ratio:.3g})" for method, ratio, _ in rows]
    axes.set_yticks(range(len(rows)), names, fontsize=8)
    axes.set_xlabel("accuracy on digits, %; in parentheses: how many times fewer bytes")
    axes.grid(True, alpha=0.3)
    axes.legend(fontsize=8, loc="upper left")
    _save(pyplot, figure, "less-accuracy")


def draw_steps(pyplot: Any) -> None:
    networks = steps()
    figure, axes = pyplot.subplots(figsize=(9, 4.5))
    width = 0.8 / len(_METHODS)
    for number, method in enumerate(_METHODS):
        heights = _heights(networks, method)
        places = [network + width * (number - len(_METHODS) / 2) for network in range(len(heights))]
        axes.bar(places, heights, width, align="edge", label=method, color=_COLOURS[number])
    axes.set_yscale("log")
    axes.set_xticks(range(len(networks)), [name.replace(", ", "\n") for name, _ in networks])
    axes.set_ylabel("seconds for the gradients of a ResNet-50")
    axes.grid(True, axis="y", alpha=0.3)
    axes.legend(fontsize=8, ncols=2)
    _save(pyplot, figure, "less-steps")


def _heights(networks: Sequence[tuple[str, list[tuple[str, float]]]], method: str) -> list[float]:
    return [dict(rows).get(method, 0.0) for _, rows in networks]


def _save(pyplot: Any, figure: Any, name: str) -> None:
    figure.tight_layout()
    figure.savefig(FOLDER / f"{name}.png", dpi=110)
    pyplot.close(figure)


def main() -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    draw_accuracies(pyplot)
    draw_steps(pyplot)


if __name__ == "__main__":
    main()
