"""hvdlite over an MPI beside the same MPI through mpi4py, in one run, taking turns.

benchmarks/over-mpi                 docs/benchmarks/mpi.md and docs/benchmarks/data/over-mpi.json
benchmarks/over-mpi --mpis mpich --rounds 2 --output /tmp/here
"""

from __future__ import annotations

import argparse
import os
from dataclasses import replace
from pathlib import Path

import collectives
import launch
import machine
import over_mpi_report
import workloads
from record import Record, end_in_order

MPIS = {backend.name: backend for backend in launch.BACKENDS if backend.peer == "mpi"}
# What makes the ranks of one host talk through its loopback interface, as if each had a host of its
# own.
_TCP = {
    "openmpi": {
        "OMPI_MCA_pml": "ob1",
        "OMPI_MCA_btl": "tcp,self",
        "OMPI_MCA_btl_tcp_if_include": "lo",
    },
    "mpich": {"MPIR_CVAR_NOLOCAL": "1", "FI_PROVIDER": "tcp", "FI_TCP_IFACE": "lo"},
}
WAYS = ("memory", "tcp")
SIZES = tuple(size for size in workloads.SIZES if size in (4, 1 << 10, 64 << 10) or size >= 1 << 20)


def columns(mpi: str, way: str) -> list[launch.Backend]:
    """The MPI itself first: everybody's ratios are to it."""
    variables = _TCP[mpi] if way == "tcp" else {}
    raw = replace(MPIS[mpi], name="MPI", environment=MPIS[mpi].environment | variables)
    forced = {"HVDLITE_CPU_OPERATIONS": "mpi"}
    if way == "tcp":
        forced["BENCHMARK_HOST_PER_RANK"] = raw.rank

    def over(name: str, peer: str, **more: str) -> launch.Backend:
        return replace(raw, name=name, peer=peer, environment=raw.environment | forced | more)

    return [
        raw,
        over("hvdlite", "hvdlite"),
        # It does not wait for more to come, which would be all that is seen of a single operation.
        over("background", "hvdlite_background", HVDLITE_CYCLE_TIME="0"),
        over("grouped", "hvdlite_grouped"),
    ]


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--mpis", nargs="+", default=list(MPIS), choices=list(MPIS))
    parser.add_argument("--ways", nargs="+", default=list(WAYS), choices=WAYS)
    parser.add_argument("--ranks", type=int, nargs="+", default=[2])
    parser.add_argument("--sizes", type=int, nargs="+", default=list(SIZES), help="bytes")
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--block", type=float, default=0.06, help="length of a block in seconds")
    parser.add_argument(
        "--quiet",
        type=float,
        default=0.3,
        help="wait up to this long for others, before each block",
    )
    parser.add_argument(
        "--scheduling",
        choices=["nice", "fifo", "normal"],
        default="fifo",
        help="where each rank has a core to itself; else nice",
    )
    parser.add_argument(
        "--output", type=Path, default=Path(__file__).parent.parent / "docs" / "benchmarks"
    )
    return parser.parse_args()


def main() -> None:
    end_in_order()
    given = arguments()
    machine.take_turns()
    record = Record(given.output, "over-mpi.json")
    runs = record.results.setdefault("runs", {})
    for mpi in given.mpis:
        for way in given.ways:
            for ranks in given.ranks:
                # A rank that spins as SCHED_FIFO keeps the one that it waits for from its core.
                alone = ranks <= (os.cpu_count() or 1)
                scheduling = given.scheduling if alone or given.scheduling == "normal" else "nice"
                plan = collectives.Plan(
                    ranks,
                    collectives.cells(given.sizes, ["float32"], ("step", "small step")),
                    columns(mpi, way),
                    given.rounds,
                    given.block,
                    given.quiet,
                    scheduling,
                    floor=False,
                )
                runs[f"{mpi} {way} {ranks}"] = collectives.measure(plan) | {"mpi": mpi, "way": way}
                record.save()
    notes = Path(__file__).with_name("over_mpi_notes.md").read_text()
    record.publish("mpi.md", over_mpi_report.write(record.results, notes))
    record.publish("notes/mpi.md", over_mpi_report.targets_of(record.results, notes))


if __name__ == "__main__":
    main()
