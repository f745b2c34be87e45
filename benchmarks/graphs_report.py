"""docs/benchmarks/graphs.md, written from the results of graphs.py. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from typing import Any

from report import for_users, item, table, targets_page, time_text
from training_report import calm, ratio

ABOUT = {
    "gradients": "161 gradients of 64 numbers are computed, reduced and subtracted. "
    "TensorFlow: one `tf.function`, hvdlite's `DistributedGradientTape` beside `tf.identity`. "
    "JAX: one `jax.jit`, `hvd.allreduce` of all beside no call",
    "mlp": "Keras `fit`: 3 × 1024, batch 256, 3.2 million parameters",
    "conv": "Keras `fit`: 5 convolutions with batch normalization, batch 32 of 32 × 32 × 3, 1.0 "
    "million parameters",
}
# The targets.
MOST_OVER_IDENTITY = 1.5
LEAST_SHARE = 0.95
MOST_FIRST = 0.5
MOST_GROWTH = (
    # bytes a step beyond the bound's: less than one small object, so that none is left behind in
    # each step
    128.0
)

Blocks = Mapping[str, Any]


def _time(blocks: Blocks, way: str) -> str:
    seconds = sorted(blocks[way][i]["seconds"] for i in calm(blocks[way]))
    return (
        f"{time_text(statistics.median(seconds))} "
        f"[{time_text(seconds[0])}..{time_text(seconds[-1])}]"
    )


def _over(blocks: Blocks) -> str:
    middle, low, high = ratio(blocks, "hvdlite", "none")
    return f"{middle:.2f} [{low:.2f}..{high:.2f}]"


def _share(blocks: Blocks) -> str:
    middle, low, high = ratio(blocks, "none", "hvdlite")
    return f"{100 * middle:.0f} % [{100 * low:.0f}..{100 * high:.0f}]"


def _more(seconds: Mapping[str, list[float]]) -> float:
    """What the first step takes longer with hvdlite."""
    return statistics.median(seconds["hvdlite"]) - statistics.median(seconds["none"])


def _verdict(what: str, wanted: str, found: str, met: bool) -> list[str]:
    return [what, wanted, found, "met" if met else "**missed**"]


def _verdicts(results: Mapping[str, Any]) -> list[list[str]]:
    rows = []
    for name, blocks in results["blocks"].items():
        if name == "tensorflow gradients":
            over = ratio(blocks, "hvdlite", "none")[0]
            rows.append(
                _verdict(
                    f"{name}: over identity",
                    f"≤ {MOST_OVER_IDENTITY:g}×",
                    f"{over:.2f}×",
                    over <= MOST_OVER_IDENTITY,
                )
            )
        elif "gradients" not in name:
            share = ratio(blocks, "none", "hvdlite")[0]
            rows.append(
                _verdict(
                    f"{name}: share of the bound",
                    f"≥ {100 * LEAST_SHARE:.0f} %",
                    f"{100 * share:.0f} %",
                    share >= LEAST_SHARE,
                )
            )
    worst = max(results["first"], key=lambda name: _more(results["first"][name]))
    more = _more(results["first"][worst])
    rows.append(
        _verdict(
            f"first step, the worst: {worst}",
            f"< {MOST_FIRST:g} s more",
            f"{more:+.2f} s",
            more < MOST_FIRST,
        )
    )
    for framework, growth in results["growth"].items():
        found = growth["hvdlite"] - growth["none"]
        met = found <= MOST_GROWTH
        rows.append(
            _verdict(
                f"{framework}: memory kept by a step",
                f"≤ {MOST_GROWTH:.0f} bytes more",
                f"{found:+.0f} bytes",
                met,
            )
        )
    return rows


def targets_of(results: Mapping[str, Any], notes: str) -> str:
    head = ["", "wanted", "found", ""]
    return targets_page("training inside graphs", head, _verdicts(results), notes)


def write(results: Mapping[str, Any], notes: str) -> str:
    firsts = [
        [
            name,
            *(time_text(statistics.median(seconds[way])) for way in ("none", "hvdlite")),
            f"{_more(seconds):+.2f} s",
        ]
        for name, seconds in results["first"].items()
    ]
    features = [item(f"{name}: {value}") for name, value in results["machine"].items()]
    features.append(
        item(
            "versions: " + ", ".join(f"{name} {text}" for name, text in results["versions"].items())
        )
    )
    foreign = [
        b["foreign"]
        for blocks in results["blocks"].values()
        for way in blocks.values()
        for b in way
    ]
    parts = [
        "# Benchmarks: training inside graphs and compiled programs",
        "<!-- Written by benchmarks/train-graphs from docs/benchmarks/data/graphs.json and "
        "benchmarks/graphs_notes.md: change those. -->",
        "This page compares training steps with and without hvdlite in TensorFlow, Keras and JAX.\n"
        f"Each run has {results['ranks']} ranks with one thread each on {results['cores']} cores, "
        f"{results['scheduling']}, {results['rounds']} rounds.\n"
        "In each round *none* and *hvdlite* take turns, so compare within a row.\n"
        "*none*: each rank trains for itself, which is the bound.\n"
        "Blocks during which other programs had more than a quarter of the machine are left out\n"
        "where enough blocks remain (the median share of other programs is "
        f"{100 * statistics.median(foreign):.0f} %).\n`benchmarks/train-graphs` repeats the "
        "measurement.",
        "\n".join(item(f"*{name}*: {text}") for name, text in ABOUT.items()),
        "## Time of a step\n\nThe median of the slower rank [fastest..slowest block].\n"
        "Ratios are the median over the rounds [quartiles].",
        table(
            ["", "none", "hvdlite", "hvdlite's time over none's", "share of the bound"],
            [[name, _time(b, "none"), _time(b, "hvdlite"), _over(b), _share(b)]
             for name, b in results["blocks"].items()],
        ),
        "## The first step\n\nThe first step of a new model or function includes tracing, "
        "compiling and the first negotiation.\n"
        "The table shows the median of several.",
        table(["", "none", "hvdlite", ""], firsts),
        "## Memory kept by a step\n\nThe growth of the process over some thousand steps of "
        "*gradients*, in bytes for each step.",
        table(
            ["", "none", "hvdlite"],
            [[name, f"{g['none']:.0f}", f"{g['hvdlite']:.0f}"]
             for name, g in results["growth"].items()],
        ),
        for_users(notes),
        "## The machine\n\n" + "\n".join(features),
    ]  # fmt: skip
    return "\n\n".join(part for part in parts if part) + "\n"
