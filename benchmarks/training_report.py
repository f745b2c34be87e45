"""docs/benchmarks/torch.md, written from the results of training.py. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from report import for_users, item, table, targets_page, time_text

ABOUT = {
    "resnet50": "ResNet-50's 161 gradients (25.6 million numbers) and no arithmetic: backward pass "
    "and reduction",
    "mlp": "3 × 2048, batch 64, 12.6 million parameters: whole training step",
    "conv": "5 convolutions with batch normalization, batch 16 of 3 × 32 × 32, 1.0 million "
    "parameters: whole step",
    "transformer": "4 layers of width 256, batch 8 × 64, 4.2 million parameters: whole step",
}
# The targets: share of the bound without communication.
WANTED = {"mlp": 0.93, "conv": 0.93, "transformer": 0.95}
FASTER_THAN_DDP = 6.0


def calm(blocks: Sequence[Mapping[str, Any]]) -> list[int]:
    """The rounds in which others had at most a quarter of the machine; all of them, if those are
    fewer than 4."""
    found = [i for i, block in enumerate(blocks) if block["foreign"] <= 0.25]
    return found if len(found) >= 4 else list(range(len(blocks)))


def ratio(
    blocks: Mapping[str, Sequence[Mapping[str, Any]]], over: str, under: str, time: str = "seconds"
) -> tuple[float, float, float]:
    """Time of `over` by that of `under` in the same round: median and quartiles."""
    rounds = sorted(set(calm(blocks[over])) & set(calm(blocks[under]))) or list(
        range(len(blocks[over]))
    )
    values = sorted(blocks[over][i][time] / blocks[under][i][time] for i in rounds)
    if len(values) < 2:
        return values[0], values[0], values[0]
    low, _, high = statistics.quantiles(values, n=4, method="inclusive")
    return statistics.median(values), low, high


def _times(blocks: Mapping[str, Any]) -> list[str]:
    cells = []
    for way in blocks.values():
        seconds = sorted(way[i]["seconds"] for i in calm(way))
        cells.append(
            f"{time_text(statistics.median(seconds))} "
            f"[{time_text(seconds[0])}..{time_text(seconds[-1])}]"
        )
    return cells


def _share(blocks: Mapping[str, Any], way: str, time: str = "seconds") -> str:
    middle, low, high = ratio(blocks, "none", way, time)
    return f"{100 * middle:.0f} % [{100 * low:.0f}..{100 * high:.0f}]"


def _communication(blocks: Mapping[str, Any], way: str) -> str:
    """What a step takes beyond the bound."""
    mine, bound = (statistics.median(b["seconds"] for b in blocks[w]) for w in (way, "none"))
    return time_text(max(mine - bound, 0.0))


def _foreign(results: Mapping[str, Any]) -> str:
    shares = [
        b["foreign"]
        for blocks in results["blocks"].values()
        for way in blocks.values()
        for b in way
    ]
    return f"{100 * statistics.median(shares):.0f} %"


def _verdicts(results: Mapping[str, Any]) -> list[list[str]]:
    rows = []
    for name, blocks in results["blocks"].items():
        faster = ratio(blocks, "ddp", "hvdlite")[0]
        if name in WANTED:
            share = ratio(blocks, "none", "hvdlite")[0]
            met = "met" if share >= WANTED[name] else "**missed**"
            rows.append(
                [
                    f"{name}: share of the bound",
                    f"≥ {100 * WANTED[name]:.0f} %",
                    f"{100 * share:.0f} %",
                    met,
                ]
            )
            rows.append(
                [
                    f"{name}: over DDP",
                    "≥ 1×",
                    f"{faster:.2f}×",
                    "met" if faster >= 1 else "**missed**",
                ]
            )
        else:
            met = "met" if faster >= FASTER_THAN_DDP else "**missed**"
            rows.append([f"{name}: over DDP", f"≥ {FASTER_THAN_DDP:g}×", f"{faster:.2f}×", met])
    peak = results["memory"]["kib_per_rank"]
    met = "met" if peak["hvdlite"] <= peak["ddp"] else "**missed**"
    own = results["overhead"]["hvdlite"]
    rows.append(
        ["overhead per gradient", "≤ 3 µs", f"{own:.1f} µs", "met" if own <= 3 else "**missed**"]
    )
    rows.append(["peak memory", "≤ DDP's", f"{peak['hvdlite'] / peak['ddp']:.2f} of it", met])
    return rows


def targets_of(results: Mapping[str, Any], notes: str) -> str:
    return targets_page(
        "training with torch", ["", "wanted", "found", ""], _verdicts(results), notes
    )


def write(results: Mapping[str, Any], notes: str) -> str:
    ways = list(next(iter(results["blocks"].values())))
    faster = []
    for name, blocks in results["blocks"].items():
        middle, low, high = ratio(blocks, "ddp", "hvdlite")
        shares = [_share(blocks, way, time) for way in ways[1:] for time in ("seconds", "in_step")]
        faster.append([name, *shares, f"{middle:.2f} [{low:.2f}..{high:.2f}]"])
        faster[-1].append(f"{_communication(blocks, 'ddp')} / {_communication(blocks, 'hvdlite')}")
    peak = results["memory"]["kib_per_rank"]
    shares_of = [head for way in ways[1:] for head in (f"{way}: share of the bound", "in step")]
    parts = [
        "# Benchmarks: training with torch",
        "<!-- Written by benchmarks/train from docs/benchmarks/data/torch.json and "
        "benchmarks/training_notes.md: change those. -->",
        "This page compares training steps with hvdlite, with DistributedDataParallel and alone.\n"
        f"Each run has {results['ranks']} ranks with one thread each on {results['cores']} cores, "
        f"{results['scheduling']}, {results['rounds']} rounds.\n"
        "In each round the columns take turns, so compare within a row.\n"
        "*none*: each rank trains for itself, which is the bound.\n"
        "*ddp*: DistributedDataParallel over gloo with `gradient_as_bucket_view=True`.\n"
        + (
            "*ddp over hvdlite*: the same over the backend hvdlite.\n"
            "*ddp alone*: the same over a backend that sends nothing, which is DDP's own work and "
            "the bound of every backend.\n"
            if "ddp over hvdlite" in ways
            else ""
        )
        + (
            "*lock step*: the ranks meet at a barrier in each step and communicate nothing.\n"
            if "lock step" in ways
            else ""
        )
        + ("*copies*: hvdlite with `HVDLITE_GRADIENT_POOL=0`.\n" if "copies" in ways else "")
        + "All keep freed memory in the process, as `hvd.DistributedOptimizer` does by default.\n"
        "Blocks during which other programs had more than a quarter of the machine are left out\n"
        f"where enough blocks remain (the median share of other programs is {_foreign(results)}).\n"
        "`benchmarks/train` repeats the measurement.",
        "\n".join(item(f"*{name}*: {text}")
                  for name, text in ABOUT.items() if name in results["blocks"]),
        "## Time of a step\n\nThe median of the slowest rank [fastest..slowest block].",
        table(["", *ways], [[name, *_times(blocks)] for name, blocks in results["blocks"].items()]),
        "## Ratios\n\nThe median over the rounds [quartiles].\n*in step* is the share of another "
        "bound: each step waits for the slower rank,\nand communication costs nothing.\n"
        "What is missing from 100 % there is communication; the rest is this machine's "
        "unsteadiness.",
        table(["", *shares_of, "DDP's time over hvdlite's", "beyond the bound: DDP / "
                                                            "hvdlite"], faster),
        "## Peak memory of a rank\n\n"
        + table(list(peak), [[f"{kib / 1024:.0f} MiB" for kib in peak.values()]]),
        "## Overhead per gradient\n\nThe time of hook, submission and completion for a tensor of "
        "64 bytes, with one rank alone.\n"
        "Nothing is communicated. The other columns are two hooks of torch's own that do nothing.",
        table(list(results["overhead"]),
              [[f"{cost:.1f} µs" for cost in results["overhead"].values()]]),
        for_users(notes),
        "## The machine\n\n" + "\n".join(item(f"{name}: {value}")
                                         for name, value in results["machine"].items()),
    ]  # fmt: skip
    return "\n\n".join(parts) + "\n"
