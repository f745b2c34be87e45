"""docs/benchmarks/compression-network.md. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import median
from typing import Any

from report import for_users, table, time_text

Results = Mapping[str, Any]
#: A step must become faster by this share of what the payload becomes smaller.
SHARE = 0.8
ASKED = ("int8", "sign", "dgc 0.1 %")
#: What an `auto` chooses from.
CHOICES = {
    "auto": ("dense", "int8"),
    "auto of int8, sign, topk": ("dense", "int8", "sign", "topk 0.1 %"),
}
#: It may take longer than the best of them by this share.
SLACK = 0.05


def name_of(megabits: int, hosts: int) -> str:
    rate = f"{megabits} Mbit/s" if megabits else "not limited"
    return f"{hosts} hosts, {rate}"


def write(results: Results, notes: str) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in results["versions"].items())
    parts = [
        "# Benchmarks: compression on slow networks",
        "<!-- Written by benchmarks/compression-network from "
        "docs/benchmarks/data/compression-network.json. -->",
        "This page shows how long the 161 gradients of a ResNet-50 (102 MB) take with the "
        "[compressions](../guides/compression.md).\n"
        f"`benchmarks/compression-network` wrote it on {results['date']}, on "
        f"{results['machine']['cores']} shared cores with these versions:\n{versions}.",
        "Each host is a network namespace of one machine, with one rank.\n"
        "Its card sends and receives so many Mbit/s each, and cuts what it sends into segments by\n"
        "itself (segmentation offload).\n"
        f"Ranks run {results.get('scheduling', 'at nice -18')}, before the programs of others.\n"
        "All ranks share the processors, so encoding takes longer than on hosts of their own.\n"
        "A step has its gradients at the beginning: nothing overlaps, and all of it is their way.\n"
        "The table has the median of the steps, on the slowest rank, and the fastest and the "
        "slowest one.\n"
        "*Sent* is what a rank's card has sent, with headers.\n"
        "*On the wire* is what that takes at the card's rate, and *elsewhere* the rest: encoding, "
        "decoding, selecting, and latency.\n"
        f"Asked for is a step that becomes faster by {SHARE:g} times what the bytes become fewer, "
        f"and an `auto` within {SLACK:.0%} of the best that it may choose.\n"
        "Where the cards are not limited, `auto()` is to choose none.\n"
        "Below each table are the lines that `auto` has printed.",
        *(section(name, network) for name, network in results["networks"].items()),
    ]
    return "\n\n".join([*parts, for_users(notes)]) + "\n"


def section(name: str, network: Results) -> str:
    rows = {row["method"]: row for row in network["rows"]}
    lines = [_line(row, rows, network["megabits"]) for row in rows.values()]
    heads = ["", "step", "fastest, slowest", "sent", "on the wire", "elsewhere", "faster",
             "fewer bytes", "asked for"]  # fmt: skip
    said = [f"- {row['method']}: `{row['said']}`" for row in rows.values() if "said" in row]
    return "\n\n".join([f"## {name}", table(heads, lines), "\n".join(said)]).strip()


def _line(row: Results, rows: Mapping[str, Results], megabits: int) -> list[str]:
    seconds, dense = median(row["seconds"]), rows.get("dense")
    wire = row["sent"] * 8 / (megabits * 1e6) if megabits else None
    faster = fewer = ""
    if dense is not None:
        faster = f"{median(dense['seconds']) / seconds:.2f}"
        fewer = f"{dense['sent'] / row['sent']:.1f}"
    return [
        row["method"],
        time_text(seconds),
        f"{time_text(min(row['seconds']))}, {time_text(max(row['seconds']))}",
        f"{row['sent'] / 1e6:.2f} MB",
        "" if wire is None else time_text(wire),
        "" if wire is None else time_text(max(0.0, seconds - wire)),
        faster,
        fewer,
        _verdict(row, rows, megabits),
    ]


def _verdict(row: Results, rows: Mapping[str, Results], megabits: int) -> str:
    method, seconds = row["method"], median(row["seconds"])
    if method in CHOICES:
        # Without a limit the default is to choose none.
        none = method == "auto" and not megabits
        choices = ("dense",) if none else CHOICES[method]
        best = min(median(rows[name]["seconds"]) for name in choices if name in rows)
        reached = seconds <= (1 + SLACK) * best and (not none or "no compression" in row["said"])
        return f"{seconds / best - 1:+.1%}: {_yes(reached)}"
    if method in ASKED and megabits and "dense" in rows:
        dense = rows["dense"]
        asked = SHARE * dense["sent"] / row["sent"]
        return f"{asked:.2f}: {_yes(median(dense['seconds']) / seconds >= asked)}"
    return ""


def _yes(reached: bool) -> str:
    return "yes" if reached else "no"
