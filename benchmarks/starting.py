"""What launching costs: hvdliterun, torchrun and MPICH's mpiexec start programs that do nothing.

    benchmarks/starting                          a minute or two; prints Markdown
    benchmarks/starting --output docs/benchmarks/starting.md --json FILE

All launchers take turns within a round, because the speed of a shared machine changes from minute
to minute. What is compared is a launcher's own time: `true` takes a millisecond.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median

import launch
import machine

_HVDLITERUN = (launch.HVDLITERUN,)
_INIT = "import hvdlite as hvd; hvd.init()"  # returns when all ranks have come


def _launchers() -> dict[str, tuple[str, ...]]:
    """By name, the command line that starts two processes of `true`."""
    found = {
        "python -c pass": (sys.executable, "-c", "pass"),
        "hvdliterun --help": (*_HVDLITERUN, "--help"),
        "hvdliterun -np 2": (*_HVDLITERUN, "-np", "2", "true"),
    }
    folder = Path(sys.executable).parent
    if (folder / "mpiexec.hydra").exists():  # a C program: no interpreter starts
        found["MPICH's mpiexec -n 2"] = (str(folder / "mpiexec.hydra"), "-n", "2", "true")
    if (folder / "torchrun").exists():
        found["torchrun --nproc-per-node 2"] = (
            str(folder / "torchrun"),
            "--nproc-per-node",
            "2",
            "--no-python",
            "true",
        )
    return found


def _seconds(command: Sequence[str]) -> float | None:
    """None: it failed."""
    began = time.perf_counter()
    try:
        done = subprocess.run(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=120
        )
    except subprocess.TimeoutExpired:
        return None
    if done.returncode:
        print(f"{command[0]}: {done.stderr.decode(errors='replace')[-300:]}", file=sys.stderr)
        return None
    return time.perf_counter() - began


def measure(rounds: int, many: int) -> dict[str, list[float]]:
    times: dict[str, list[float]] = {}
    launchers = _launchers()
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder, "init.py")
        program.write_text(_INIT)
        slow = {
            f"hvdliterun -np {many}, until all ranks have met": (
                *_HVDLITERUN,
                "-np",
                str(many),
                sys.executable,
                str(program),
            )
        }
        for turn in range(rounds):
            for name, command in {**launchers, **(slow if turn < 3 else {})}.items():
                machine.wait_for_quiet(2.0)
                seconds = _seconds(command)
                if seconds is not None:
                    times.setdefault(name, []).append(seconds)
    return times


def markdown(times: dict[str, list[float]], date: str) -> str:
    versions = machine.versions(("hvdlite", "torch", "mpich"))
    lines = [
        "# Starting",
        "",
        "This page shows how long commands take.\n"
        f"`benchmarks/starting` wrote it on {date}, on {os.cpu_count()} shared cores with these "
        "versions:\n"
        + ", ".join(f"{name} {version}" for name, version in versions.items()) + ".",
        "Each row is a whole command, from its start to its end.",
        "The programs do nothing.",
        "The time is the median (fastest to slowest).",
        "",
        "| command | time | runs |",
        "|---|---|---|",
    ]  # fmt: skip
    lines += [
        f"| {name} | {median(values):.2f} s ({min(values):.2f} to {max(values):.2f}) | "
        f"{len(values)} |"
        for name, values in times.items()
    ]
    bare = median(times["python -c pass"])
    own = median(times["hvdliterun -np 2"]) - bare
    text = median(times["hvdliterun --help"])
    lines += [
        "",
        f"hvdliterun adds {own:.2f} s to two ranks beyond the start of one Python; `--help` takes "
        f"{text:.2f} s.",
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--rounds", type=int, default=15, help="how often each launcher has its turn (default 15)"
    )
    parser.add_argument(
        "--many", type=int, default=64, help="ranks of the job that meets (default 64)"
    )
    parser.add_argument("--output", type=Path, help="write the Markdown here as well")
    parser.add_argument("--json", type=Path, help="write all times here")
    given = parser.parse_args()
    machine.take_turns()
    times = measure(given.rounds, given.many)
    text = markdown(times, time.strftime("%d %B %Y"))
    print(text)
    if given.output:
        given.output.write_text(text)
    if given.json:
        given.json.write_text(json.dumps(times, indent=1) + "\n")


if __name__ == "__main__":
    main()
