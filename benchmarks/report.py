"""docs/benchmarks/index.md, written from the results. Pure: numbers in, Markdown out."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import summary
import targets
import workloads

Results = Mapping[str, Any]


def time_text(seconds: float) -> str:
    """Three digits that matter."""
    for unit, factor in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= factor:
            return f"{_digits(seconds / factor)} {unit}"
    return f"{seconds * 1e6:.2f} µs"


def _digits(value: float) -> str:
    return f"{value:.0f}" if value >= 99.5 else f"{value:.1f}" if value >= 9.95 else f"{value:.2f}"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join(lines)


# In a file of notes: what comes before this line is for users, the rest for us.
MISSED = "## What was missed, and why"


def for_users(notes: str) -> str:
    return notes.partition(MISSED)[0].strip()


def targets_page(title: str, head: Sequence[str], rows: Sequence[Sequence[str]], notes: str) -> str:
    """A page of docs/benchmarks/notes: our targets, and why some were missed. The site does not
    show it."""
    about = (
        "<!-- Written by the benchmark; the text is from its file of notes in benchmarks/, "
        f"below '{MISSED}'. -->"
    )
    missed = "".join(notes.partition(MISSED)[1:]).strip()
    parts = [f"# Targets: {title}", about, "## What was to be reached", table(head, rows), missed]
    return "\n\n".join(part for part in parts if part) + "\n"


def item(text: str) -> str:
    """An item of a list, within 100 columns."""
    return textwrap.fill(
        f"- {text}", 100, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
    )


def row_name(row: Mapping[str, Any]) -> str:
    names = {
        "step": "161 gradients",
        "small step": "161 tensors of 64 numbers",
        "gpt2 step": "GPT-2's 148 gradients",
    }
    return names.get(row["op"]) or workloads.size_text(row["bytes"])


def _spread(cell: Mapping[str, Any], text: Callable[[float], str]) -> str:
    return f"{text(cell['median'])} [{text(cell['low'])}..{text(cell['high'])}]"


def times_table(rows: Sequence[Mapping[str, Any]], names: Sequence[str]) -> str:
    """Every backend's time: median of the blocks [the fastest..the slowest]."""

    def shown(cell: Mapping[str, Any]) -> str:
        return _spread(cell, time_text) if "median" in cell else "–"

    return table(
        ["", *names], [[row_name(r), *(shown(r["backends"][n]) for n in names)] for r in rows]
    )


def ratios_table(rows: Sequence[Mapping[str, Any]], names: Sequence[str]) -> str:
    """How many times hvdlite's time the others take: of the medians [quartiles of the rounds]."""

    def shown(cell: Mapping[str, Any] | None) -> str:
        return _spread(cell, _digits) if cell else "–"

    return table(
        ["", *names], [[row_name(r), *(shown(r["ratios"].get(n)) for n in names)] for r in rows]
    )


def cpu_table(rows: Sequence[Mapping[str, Any]], names: Sequence[str], ranks: int) -> str:
    """The CPU seconds of all threads of a rank for an allreduce of 1 GiB of its tensors."""

    def shown(row: Mapping[str, Any], name: str) -> str:
        cell = row["backends"][name]
        return (
            _digits(cell["cpu"] / ranks / (row["bytes"] / (1 << 30))) if "median" in cell else "–"
        )

    return table(["", *names], [[row_name(r), *(shown(r, n) for n in names)] for r in rows])


def _title(run: Mapping[str, Any]) -> str:
    # Ranks of older runs, which do not say it, were not pinned.
    pinned = "pinned, " if run.get("pinned") else ""
    return f"{run['ranks']} ranks, {pinned}{run['scheduling']}"


def _collectives(results: Results) -> list[str]:
    parts: list[str] = []
    for name, run in sorted(results.get("collectives", {}).items()):
        names = list(run["rows"][0]["backends"])
        peers = [n for n in names if n not in ("hvdlite", "floor")]
        for dtype in dict.fromkeys(r["dtype"] for r in run["rows"]):
            rows = [r for r in run["rows"] if r["dtype"] == dtype]
            shown = [n for n in names if any("median" in r["backends"][n] for r in rows)]
            missing = {
                r["backends"][n]["absent"]
                for r in rows
                for n in peers
                if "absent" in r["backends"][n]
            }
            parts.append(
                f"## {_title(run)}, {dtype}\n\nTime of one operation: median [fastest..slowest "
                "block]."
            )
            parts.append(times_table(rows, shown))
            parts.append(
                "Time divided by hvdlite's time: ratio of the medians [quartiles of the rounds' "
                "ratios].\nAbove 1, hvdlite is faster."
            )
            parts.append(ratios_table(rows, [n for n in shown if n != "hvdlite"]))
            if missing:
                parts.append("Left out: " + "; ".join(sorted(missing)) + ".")
        large = [
            r for r in run["rows"] if r["bytes"] in (16 << 20, 64 << 20) and r["dtype"] == "float32"
        ]
        if large:
            parts.append(f"## {_title(run)}: CPU seconds per GiB\n\n{_sentence(cpu_table)}")
            parts.append(cpu_table(large, [n for n in names if n != "floor"], run["ranks"]))
        parts.append(f"![time of an allreduce by size](time-{name}.png)")
        parts.append(f"![time over hvdlite's by size](ratio-{name}.png)")
    return parts


def _sentence(function: Callable[..., str]) -> str:
    return (function.__doc__ or "").split("\n")[0]


def _features(results: Results) -> list[str]:
    lines = [item(f"{name}: {value}") for name, value in results["machine"].items()]
    lines.append(
        item(
            "versions: " + ", ".join(f"{name} {text}" for name, text in results["versions"].items())
        )
    )
    for _, run in sorted(results.get("collectives", {}).items()):
        lines.append(item(f"{_title(run)}: {run['rounds']} rounds; {_probes(run['probes'])}"))
    return ["## The machine", "\n".join(lines)]


def _probes(probes: Sequence[Mapping[str, float]]) -> str:
    units = {
        "core_to_core_ns": ("from core to core", "ns"),
        "wake_us": ("waking a sleeper", "µs"),
        "memcpy_cached": ("memcpy of 256 KiB", "GB/s"),
        "memcpy_large": ("of 64 MiB", "GB/s"),
    }
    texts = []
    for key, (name, unit) in units.items():
        found = sorted(probe[key] for probe in probes if key in probe)
        if found:
            texts.append(
                f"{name} {_digits(found[len(found) // 2])} "
                f"[{_digits(found[0])}..{_digits(found[-1])}] {unit}"
            )
            if key == "core_to_core_ns":
                texts[-1] += f" ({summary.distance(found)})"
    return ", ".join(texts) or "no probe (no compiler)"


def targets_of(results: Results, notes: str) -> str:
    nice, fifo = ({v.what: v for v in targets.judge(results, suffix)} for suffix in ("", "-fifo"))

    def shown(verdict: targets.Verdict | None) -> list[str]:
        return [verdict.found, "met" if verdict.met else "**missed**"] if verdict else ["–", ""]

    rows = []
    for what in {**nice, **fifo}:
        wanted = (nice.get(what) or fifo[what]).wanted
        rows.append([what, wanted, *shown(nice.get(what)), *shown(fifo.get(what))])
    head = ["", "wanted", "at nice -18", "", "as SCHED_FIFO", ""]
    return targets_page("collectives", head, rows, notes)


def _lifecycle(results: Results) -> list[str]:
    parts: list[str] = []
    if idle := results.get("idle"):
        rows = [[name, f"{100 * share:.3f} %"] for name, share in idle["share"].items()]
        parts += ["## Idle\n\nThe share of a core that an initialised rank takes while it does "
                  f"nothing, over {idle['seconds']} s.",
                  table(["", "of a core"], rows)]  # fmt: skip
    if memory := results.get("memory"):
        parts += ["## Memory\n\nThe memory of one rank of 2, in MiB.\nThe ranks share the segment, "
                  "so it counts once for all of them.",
                  table(["", "private", "shared"],
                        [[s["at"], f"{s['private']:.1f}", f"{s['shared']:.1f}"]
                         for s in memory["steps"]])]  # fmt: skip
    if startup := results.get("startup"):
        parts += ["## Starting\n\nThe median [fastest..slowest] of several processes.",
                  table(["", "time"],
                        [[s["what"], _spread(s, time_text)] for s in startup["rows"]])]  # fmt: skip
    if negotiation := results.get("negotiation"):
        parts.append(
            "## Many ranks\n\n"
            "These tables show the time of steps with so little data that negotiation takes most "
            "of it.\n"
            "N engines run as threads of one process.\n"
            "A step has one known tensor of 4 bytes, or 161 of them.\n"
            "With more ranks than cores the ranks take turns, so a step's time grows at least "
            "with N.\n"
            "The CPU time is that of one rank in one step."
        )
        head = ["ranks", "1 tensor", "CPU time", "161 tensors", "CPU time"]
        for where, runs in negotiation.items():
            keys = ("one", "one_cpu", "list", "list_cpu")
            rows = [[str(r["ranks"]), *(time_text(r[key]) for key in keys)] for r in runs]
            parts += [f"### {where[0].upper()}{where[1:]}", table(head, rows)]
    return parts


def write(results: Results, notes: str) -> str:
    head = [
        "# Benchmarks",
        "<!-- Written by benchmarks/run from docs/benchmarks/data/results.json and "
        "benchmarks/notes.md: change those. -->",
    ]
    parts = [
        *head,
        for_users(notes),
        *_features(results),
        *_collectives(results),
        *_lifecycle(results),
    ]
    return "\n\n".join(parts) + "\n"
