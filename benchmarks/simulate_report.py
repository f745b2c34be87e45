"""docs/benchmarks/simulate.md. Pure but for the plot."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import simulate_jobs
import workloads
from report import for_users, table, time_text

Results = Mapping[str, Any]


def error(predicted: float, measured: float) -> float:
    """As a share of what was measured."""
    return (predicted - measured) / measured


def _percent(share: float) -> str:
    return f"{100 * share:+.1f} %"


def write(results: Results, notes: str) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in results["versions"].items())
    parts = [
        "# Benchmarks: predictions",
        "<!-- Written by benchmarks/simulate from docs/benchmarks/data/simulate.json and "
        "benchmarks/simulate_notes.md: change those. -->",
        "This page compares the predictions of "
        "[`hvdlite simulate`](../guides/planning.md) with measurements.\n"
        f"`benchmarks/simulate` wrote it on {results['date']}, on "
        f"{results['machine']['cores']} shared cores with these versions:\n{versions}.\n"
        f"Jobs ran as {results['scheduling']}.",
        *_collectives(results["collectives"]),
        *_steps(results.get("steps", {})),
        *_published(),
        *_negotiation(results.get("negotiation", [])),
        *_launch(results.get("launch", [])),
        for_users(notes),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _collectives(jobs: Results) -> list[str]:
    rows = []
    errors = []
    for name, job in jobs.items():
        for row in job["rows"]:
            measured = min(row["seconds"])
            errors.append(abs(error(row["predicted"], measured)))
            rows.append(
                [
                    name,
                    workloads.size_text(row["bytes"]),
                    time_text(measured),
                    time_text(median(row["seconds"])),
                    time_text(row["predicted"]),
                    _percent(error(row["predicted"], measured)),
                ]
            )
    within = sum(each <= 0.1 for each in errors)
    return [
        "## Collectives",
        "Each host is a network namespace, and its card sends and receives "
        f"{simulate_jobs.MEGABITS} Mbit/s each.\n"
        "The time goes from the common start of all ranks to the end of the last one.\n"
        "Other programs used this machine at the same time, so the fastest turn is compared, and "
        "the median shown.\n"
        "The latency of each job comes from its fastest allreduce of 4 bytes.\n"
        f"Of {len(errors)} predictions, {within} are within 10 %; the largest error is "
        f"{100 * max(errors):.1f} %.",
        table(["", "bytes", "fastest", "median", "predicted", "error"], rows),
    ]


def _steps(jobs: Results) -> list[str]:
    if not jobs:
        return []
    rows = []
    for name, job in jobs.items():
        measured = min(job["seconds"])
        row = [name, time_text(measured), f"{100 * job['alone'] / measured:.0f} %"]
        for source in ("from the timeline", "from the table"):
            row += [time_text(job[source]), _percent(error(job[source], measured))]
        rows.append(row)
    return [
        "## Steps",
        "A step submits the 161 gradients of a ResNet-50, with a sixteenth of its numbers, "
        "when they would be ready.\n"
        f"It sleeps for {simulate_jobs.STEP_SECONDS} s instead of computing.\n"
        "*From the timeline* predicts these steps from the timeline of two ranks with a fast "
        "network,\nand *from the table* from the table of models.",
        table(
            ["", "fastest", "efficiency", "from the timeline", "error", "from the table", "error"],
            rows,
        ),
    ]


def _published() -> list[str]:
    models = simulate_jobs.PUBLISHED
    rows = [["Horovod's paper", *(f"{100 * m.efficiency:.0f} %" for m in models)]]
    for name, changed in simulate_jobs.VARIATIONS:
        shown = (simulate_jobs.published_efficiency(m, **changed) for m in models)
        rows.append([name, *(f"{100 * efficiency:.1f} %" for efficiency in shown)])
    return [
        "## Horovod's published efficiency",
        "Horovod's paper (arXiv 1802.05799) has the efficiency of 128 servers with 4 Pascal GPUs "
        "each and 25 Gbit/s Ethernet.\n"
        "The paper does not say how fast one GPU is and what the network did, so these inputs are "
        "assumptions:",
        "\n".join(
            [
                "- A GPU trains "
                + ", ".join(f"{m.images:g} images/s with {m.model}" for m in models)
                + ", in batches of 64.",
                "  These are TensorFlow's figures for a P100 of May 2017; ResNet-101 is "
                "interpolated between its ResNet-50 and ResNet-152.",
                "- Gradients are float32 and travel in one ring through all GPUs of a server and "
                "then the next, in batches of 64 MiB.",
                "- A batch waits for its last gradient, because TensorFlow enqueues ahead of the "
                "GPU.",
                "- Tensors get 94 % of the line rate, a message takes 25 µs, and a GPU's bus 10 "
                "GB/s: the defaults of `hvdlite simulate`.",
                "- The times of single GPUs scatter by 2 %, its default, too.",
            ]
        ),
        "Each further row changes one assumption.",
        table(["", *(m.model for m in models)], rows),
    ]


def _negotiation(rows: Sequence[Results]) -> list[str]:
    if not rows:
        return []
    shown = [
        [str(r["ranks"]), *(time_text(r[key]) for key in ("one", "one_cpu", "list", "list_cpu"))]
        for r in rows
    ]
    return [
        "## Negotiation of many ranks",
        "Engines run as threads of one process, all on one host.\n"
        "A step has one known tensor of 4 bytes, or 161 of them.\n"
        "With more ranks than cores the ranks take turns, so the CPU time of one rank in one step "
        "is what counts.\n"
        "It grows with the number of ranks, because each rank reads what all others contribute.\n"
        "Many other programs used the two cores at the same time.",
        table(["ranks", "1 tensor", "CPU time", "161 tensors", "CPU time"], shown),
        "![What a rank costs, by the number of ranks](simulate-growth.png)",
    ]


def _launch(rows: Sequence[Results]) -> list[str]:
    if not rows:
        return []
    shown = [
        [
            str(r["ranks"]),
            time_text(r["seconds"]),
            time_text(r["seconds"] / r["ranks"]),
            time_text(r["met"]) if "met" in r else "–",
        ]
        for r in rows
    ]
    return [
        "## Launching many ranks",
        "`hvdliterun -np N true` is a whole job that does nothing.\n"
        "*Met* is a job whose ranks start Python and call `hvd.init()`.\n"
        "Many other programs used the two cores at the same time, so these are upper bounds.",
        table(["ranks", "whole job", "for each rank", "met"], shown),
    ]


def draw(results: Results, folder: Path) -> None:
    """simulate-growth.png. Nothing without matplotlib."""
    rows = results.get("negotiation", [])
    if not rows:
        return
    with contextlib.suppress(ImportError):
        import matplotlib

        matplotlib.use("Agg")
        from matplotlib import pyplot

        figure, axes = pyplot.subplots(figsize=(7, 4))
        ranks = [row["ranks"] for row in rows]
        for key, what in (("one_cpu", "1 tensor"), ("list_cpu", "161 tensors")):
            axes.plot(
                ranks, [1e6 * row[key] for row in rows], "o-", label=f"CPU time of a step, {what}"
            )
        launched = results.get("launch", [])
        if launched:
            axes.plot(
                [row["ranks"] for row in launched],
                [1e6 * row["seconds"] / row["ranks"] for row in launched],
                "s--",
                label="hvdliterun true, time by ranks",
            )
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        ticks = sorted({*ranks, *(row["ranks"] for row in launched)})
        axes.set_xticks(ticks, [str(n) for n in ticks])
        axes.set_xlabel("ranks")
        axes.set_ylabel("µs for each rank")
        axes.grid(True, which="major", alpha=0.3)
        axes.legend(fontsize=8)
        figure.tight_layout()
        figure.savefig(folder / "simulate-growth.png", dpi=110)
        pyplot.close(figure)
