"""docs/benchmarks/elastic.md, from the notes of elastic_worker.py. Pure but for the plot."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from report import for_users, table, targets_page, time_text

Note = Mapping[str, Any]


def deaths(notes: Sequence[Note]) -> dict[str, Any]:
    """Seconds from each death until all ranks of the next generation have done an operation, and
    a step; and what a step takes."""
    found: dict[str, list[float]] = {"operation": [], "first step": [], "step": []}
    for death in _of(notes, "death"):
        for what in ("operation", "first step"):
            later = [n for n in _of(notes, what) if n["generation"] > death["generation"]]
            if not later:
                continue
            next_one = min(n["generation"] for n in later)
            last = max(n["at"] for n in later if n["generation"] == next_one)
            found[what].append(last - death["at"])
    found["step"] = [n["took"] for n in _of(notes, "end")]
    return found | {"deaths": len(_of(notes, "death"))}


def next_steps(notes: Sequence[Note]) -> list[float]:
    """Seconds from each death until each process that goes on has made a step."""
    found = []
    for death in _of(notes, "death"):
        before = {n["pid"] for n in notes if n["at"] < death["at"]} - {death["pid"]}
        first: dict[int, float] = {}
        for step in _of(notes, "step"):
            if step["pid"] not in before or step["at"] < death["at"]:
                continue
            if step["size"] == death["size"]:  # that was under way, and has not needed the dead one
                continue
            first.setdefault(step["pid"], step["at"])
        dead = {n["pid"] for n in _of(notes, "death")}
        if first and first.keys() >= before - dead:
            found.append(max(first.values()) - death["at"])
    return found


def growths(notes: Sequence[Note]) -> list[float]:
    """Seconds for which a planned change stopped a survivor, without the step that follows."""
    broken = {n["generation"] for n in _of(notes, "death")}
    found = []
    for end in _of(notes, "end"):
        later = [
            n
            for n in _of(notes, "first step")
            if n["pid"] == end["pid"] and n["generation"] == end["generation"] + 1
        ]
        if later and end["generation"] not in broken and later[0]["size"] > end["size"]:
            found.append(later[0]["at"] - end["last"] - end["took"])
    return found


def _of(notes: Sequence[Note], what: str) -> list[Note]:
    return [note for note in notes if note["what"] == what]


def _number(found: Mapping[str, Any]) -> str:
    missing = found["deaths"] - len(found["first step"])
    return f"{found['deaths']}, {missing} for good" if missing else str(found["deaths"])


def _times(seconds: Sequence[float]) -> str:
    return f"{time_text(median(seconds))} ({time_text(max(seconds))})" if seconds else "–"


def write(results: Mapping[str, Any], notes: str) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in results["versions"].items())
    died = [
        [
            name,
            _number(found),
            _times(found["operation"]),
            _times(found["first step"]),
            time_text(median(found["step"])) if found["step"] else "–",
        ]
        for name, found in results["deaths"].items()
    ]
    grown = [[n, str(len(found)), _times(found)] for n, found in results["growth"].items()]
    costs = []
    if "transfers" in results:
        speed = median(results["transfers"]) / 1e9
        costs.append(["a newcomer receives 102 MB", f"{speed:.2f} GB/s"])
    if "commit" in results:
        commit, step = (_times(_slowest(results[what])) for what in ("commit", "step"))
        costs.append(["`state.commit()` of 102 MB", commit])
        costs.append(["`state.step()` with 156 buffers of 243 KiB", step])
    if "copy" in results:
        copy = _times(_slowest(results["copy"]))
        costs.append(["torch alone copies these buffers (`torch._foreach_copy_`)", copy])
    return (
        "\n\n".join(
            [
                "# Benchmarks: elastic training",
                "<!-- Written by benchmarks/elastic from docs/benchmarks/data/elastic.json: "
                "change that. -->",
                "This page shows what deaths and newcomers cost a job that trains with torch.\n"
                f"`benchmarks/elastic` wrote it on {results['date']}, on "
                f"{results['machine']['cores']} shared cores with these versions:\n{versions}.\n"
                f"Jobs ran as {results['scheduling']}.\n"
                "Each time is the median, and the maximum in brackets.",
                "## A rank is killed",
                "A rank ends itself by SIGKILL in the middle of the training of a 1 MB model.\n"
                "The times are from there until the last of the ranks that go on has completed an "
                "operation,\nand a step.\n"
                "torchrun restarts all ranks of the same program, which reads its last checkpoint.",
                table(["", "deaths", "next operation", "next step", "a step takes"], died),
                "![Time from a death to the next step](elastic.png)",
                *_inside_trainers(results.get("trainers", {})),
                "## The slot is filled again",
                "A new process starts, imports torch and builds its model while the others train.\n"
                "Then the others stop for a moment, which includes the transfer of the state.",
                table(["", "newcomers", "the others stop for"], grown),
                "## What boundaries cost",
                "With 2 ranks, where none dies.",
                table(["", ""], costs),
                for_users(notes),
            ]
        )
        + "\n"
    )


def _inside_trainers(found: Mapping[str, Sequence[float]]) -> list[str]:
    if not found:
        return []
    rows = [
        [name, str(len(seconds)), time_text(median(seconds)), time_text(_of_twenty(seconds))]
        for name, seconds in found.items()
        if seconds
    ]
    return [
        "## Inside trainers",
        "One of three ranks ends itself in front of a step of its trainer, whose call is not "
        "left.\nThe times are from there until the last of the others has made a step: the median, "
        "and\nwhat 19 of 20 stay below.\n"
        "With torch's `enable_reconfigure` the program does it by hand: one sum of 1 MB is a "
        "step,\nand who has died is known to it.",
        table(["", "deaths", "next step", "19 of 20"], rows),
    ]


def _of_twenty(seconds: Sequence[float]) -> float:
    return sorted(seconds)[min(len(seconds) - 1, int(0.95 * len(seconds)))]


def _slowest(ranks: Sequence[Sequence[float]]) -> list[float]:
    """Of each turn, the slowest rank's time."""
    return [max(turn) for turn in zip(*ranks, strict=True)]


def verdicts(results: Mapping[str, Any]) -> list[list[str]]:
    """What was wanted, what was found, and whether that will do."""
    rows = []

    def judge(what: str, wanted: float, found: float) -> None:
        met = "yes" if found <= wanted else "no"
        rows.append([what, f"at most {time_text(wanted)}", time_text(found), met])

    for name, found in results["deaths"].items():
        if "torchrun" not in name:
            steps = [s - median(found["step"]) for s in found["first step"]]
            operation = 0.2 if "hosts" in name else 0.1
            judge(f"{name}: next operation, median", operation, median(found["operation"]))
            judge(f"{name}: next step beyond the step, median", 1.0, median(steps))
            judge(f"{name}: next step, maximum", 2.0, max(found["first step"]))
    for name, seconds in results["growth"].items():
        if seconds and "MB" not in name:
            judge(f"{name}: a newcomer stops the others, median", 0.3, median(seconds))
    if "commit" in results:
        judge("`state.step()`, median", 100e-6, median(_slowest(results["step"])))
        judge("`state.commit()` of 102 MB, median", 40e-3, median(_slowest(results["commit"])))
    if "transfers" in results:
        speed = median(results["transfers"]) / 1e9
        rows.append(
            ["transfer to a newcomer", "at least 1 GB/s", f"{speed:.2f} GB/s", _yes(speed >= 1)]
        )
    return rows


def _yes(met: bool) -> str:
    return "yes" if met else "no"


def targets_of(results: Mapping[str, Any], notes: str) -> str:
    head = ["what", "wanted", "found", "met"]
    return targets_page("elastic training", head, verdicts(results), notes)


def draw(results: Mapping[str, Any], folder: Path) -> None:
    """elastic.png: each death's time to the next step. Nothing without matplotlib."""
    with contextlib.suppress(ImportError):
        import matplotlib

        matplotlib.use("Agg")
        from matplotlib import pyplot

        names = list(results["deaths"])
        figure, axes = pyplot.subplots(figsize=(7, 0.6 * len(names) + 1.2))
        for row, name in enumerate(reversed(names)):
            seconds = results["deaths"][name]["first step"]
            color = "#2c3e50" if "torchrun" in name else "#c0392b"
            axes.plot(seconds, [row] * len(seconds), "|", color=color, markersize=12)
            if seconds:
                axes.plot(median(seconds), row, "o", color=color)
        axes.set_yticks(range(len(names)), list(reversed(names)))
        axes.set_xscale("log")
        axes.set_xlabel("seconds from the death of a rank to the next step")
        axes.grid(True, axis="x", which="major", alpha=0.3)
        figure.tight_layout()
        figure.savefig(folder / "elastic.png", dpi=110)
        pyplot.close(figure)
