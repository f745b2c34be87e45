"""docs/benchmarks/mpi.md, written from the results of over_mpi.py. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from report import Results, for_users, item, row_name, table, targets_page, time_text

_WAYS = {
    "memory": "through the MPI's shared memory",
    "tcp": "through TCP on the loopback, every rank a host of its own",
}
_MPIS = {"openmpi": "Open MPI", "mpich": "MPICH"}
# The targets.
MOST_OVER_WHEN_WAITING = 3e-6
MOST_OVER_IN_BACKGROUND = 8e-6
LEAST_SHARE = 0.95  # of what the MPI itself does, from LARGE up
LARGE = 1 << 20
LEAST_STEP = 2.0  # times as fast as the calls one by one

ABOUT = """This page compares hvdlite over MPI with the MPI itself, on {cores} cores.
In each round all columns take turns at each size, one block of about {block:.0f} ms each.
So compare within a row.
Blocks during which other programs had more than a quarter of the machine are left out
where enough blocks remain.
`benchmarks/over-mpi` repeats the measurement.

- *MPI*: `Allreduce` of mpi4py, in place. A step makes one call after another.
- *hvdlite*: the caller waits in `allreduce_`, so its thread does the work itself.
  A step submits all tensors and then waits for them.
- *background*: `allreduce_async_`.
  The caller yields its core (`sched_yield`) until `poll` says that the background thread
  has done the work.
  `HVDLITE_CYCLE_TIME=0` is set: otherwise the thread would wait 1 ms for more submissions.
- *grouped*: one call of `grouped_allreduce_` submits the tensors of a step."""


def _shown(cell: Mapping[str, Any]) -> str:
    if "median" not in cell:
        return "–"
    return f"{time_text(cell['median'])} [{time_text(cell['low'])}..{time_text(cell['high'])}]"


def _times_as_fast(row: Mapping[str, Any], name: str) -> str:
    """The MPI's time over this one's; quartiles of the rounds."""
    ratio = row["ratios"].get(name)
    if ratio is None:
        return "–"
    return f"{1 / ratio['median']:.2f} [{1 / ratio['high']:.2f}..{1 / ratio['low']:.2f}]"


def _over(row: Mapping[str, Any], name: str) -> float:
    times = row["backends"]
    return float(times[name]["median"] - times["MPI"]["median"])


def _title(run: Mapping[str, Any]) -> str:
    return f"{_MPIS[run['mpi']]}, {run['ranks']} ranks {_WAYS[run['way']]}, {run['scheduling']}"


def _tables(run: Mapping[str, Any]) -> list[str]:
    names = [name for name in run["rows"][0]["backends"] if name != "floor"]
    others = [name for name in names if name != "MPI"]
    missing = {
        row["backends"][name]["absent"]
        for row in run["rows"]
        for name in names
        if "absent" in row["backends"][name]
        and not row["backends"][name]["absent"].startswith("only ")
    }
    parts = [
        f"## {_title(run)}\n\nTime: median [fastest..slowest block], {run['rounds']} rounds.",
        table(
            ["", *names],
            [[row_name(r), *(_shown(r["backends"][n]) for n in names)] for r in run["rows"]],
        ),
        "The MPI's time divided by the column's: ratio of the medians [quartiles of the "
        "rounds].\nAbove 1, hvdlite is faster.",
        table(
            ["", *others],
            [[row_name(r), *(_times_as_fast(r, n) for n in others)] for r in run["rows"]],
        ),
    ]
    return [*parts, *(f"Left out: {reason}." for reason in sorted(missing))]


def _verdicts(run: Mapping[str, Any]) -> list[list[str]]:
    rows: list[list[str]] = []

    def judge(what: str, wanted: str, found: str, met: bool) -> None:
        rows.append([f"{_MPIS[run['mpi']]}, {what}", wanted, found, "met" if met else "**missed**"])

    large: dict[str, float] = {}
    for row in run["rows"]:
        has = {name for name, cell in row["backends"].items() if "median" in cell}
        if "MPI" not in has:
            continue
        if row["op"] == "allreduce" and row["bytes"] == 4:
            for name, what, most in (
                ("hvdlite", "4 B, the caller waits", MOST_OVER_WHEN_WAITING),
                ("background", "4 B, in the background", MOST_OVER_IN_BACKGROUND),
            ):
                if name in has:
                    more = _over(row, name)
                    judge(
                        what, f"≤ {most * 1e6:.0f} µs more", f"{more * 1e6:+.1f} µs", more <= most
                    )
        elif row["op"] == "allreduce" and row["bytes"] >= LARGE and "hvdlite" in has:
            large[row_name(row)] = 1 / row["ratios"]["hvdlite"]["median"]
        elif row["op"] == "step" and "hvdlite" in has:
            faster = 1 / row["ratios"]["hvdlite"]["median"]
            judge("161 gradients", f"≥ {LEAST_STEP:g}×", f"{faster:.2f}×", faster >= LEAST_STEP)
    if large:
        worst = min(large, key=lambda name: large[name])
        share = f"{100 * large[worst]:.0f} % ({worst})"
        judge(
            "from 1 MiB up, the worst",
            f"≥ {100 * LEAST_SHARE:.0f} % of MPI",
            share,
            large[worst] >= LEAST_SHARE,
        )
    return rows


def targets_of(results: Results, notes: str) -> str:
    """Of the runs on one host with 2 ranks."""
    runs = [run for run in results["runs"].values() if run["way"] == "memory" and run["ranks"] == 2]
    judged = [row for run in runs for row in _verdicts(run)]
    return targets_page("over MPI", ["", "wanted", "found", ""], judged, notes)


def write(results: Results, notes: str) -> str:
    runs = list(results["runs"].values())
    features = [item(f"{name}: {value}") for name, value in results["machine"].items()]
    features.append(
        item(
            "versions: " + ", ".join(f"{name} {text}" for name, text in results["versions"].items())
        )
    )
    parts = [
        "# Benchmarks: over MPI",
        "<!-- Written by benchmarks/over-mpi from docs/benchmarks/data/over-mpi.json and "
        "benchmarks/over_mpi_notes.md: change those. -->",
        ABOUT.format(cores=runs[0]["cores"], block=1e3 * runs[0]["block_seconds"]),
        for_users(notes),
        *(part for run in runs for part in _tables(run)),
        "## The machine\n\n" + "\n".join(features),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"
