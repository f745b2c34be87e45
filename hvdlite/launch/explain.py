"""`--check-build`: what there is for tensors on a GPU; with -v also which way tensors take between two ranks and why, and which MPI there
is. Tried, each in processes of its own."""

from __future__ import annotations

import os
from collections.abc import Iterator

from hvdlite.launch.attempt import attempt, two_ranks

_PROGRAM = """
import numpy
import hvdlite as hvd
from hvdlite import _core
hvd.init()
assert hvd.allreduce(numpy.ones(3), op=hvd.Sum)[0] == 2
print(_core.explain(0), flush=True)
"""

_WAYS: tuple[tuple[str, list[str], dict[str, str]], ...] = (
    ("on one host", ["-H", "localhost:2", "--gloo"], {}),
    ("on two hosts (pretended)", ["-H", "localhost:1,127.0.0.1:1", "--gloo"], {}),
    ("over MPI, by --mpi", ["-H", "localhost:2", "--mpi"], {"HVDLITE_CPU_OPERATIONS": "mpi"}),
)


def ways() -> Iterator[tuple[bool, str]]:
    """For each way whether it works, and why tensors would take it."""
    for title, flags, variables in _WAYS:
        tried = two_ranks(flags, _PROGRAM, _surroundings() | variables)
        why = [line.partition(":")[2] for line in tried.lines if line.startswith("[0]")]
        works = not tried.problem and bool(why)
        yield works, f"{title}: {why[0] if works else tried.problem or 'rank 0 has said nothing'}"


def mpi() -> Iterator[tuple[bool, str]]:
    """What mpi4py loads here, or why there is nothing."""
    tried = attempt(["-m", "hvdlite.bootstrap.mpi_report"], _surroundings())
    if tried.problem:
        yield False, tried.problem
    else:
        yield from ((True, line) for line in tried.lines)


def gpu() -> Iterator[tuple[bool, str]]:
    """Kernels, driver and NCCL: which, or why there is none."""
    tried = attempt(["-m", "hvdlite.job.gpu_report"])
    if tried.problem:
        yield False, tried.problem
    else:
        yield from ((line[0] == "X", line[2:]) for line in tried.lines)


def _surroundings() -> dict[str, str]:
    """No wish for a way."""
    return {name: value for name, value in os.environ.items() if not name.endswith("_CPU_OPERATIONS")}
