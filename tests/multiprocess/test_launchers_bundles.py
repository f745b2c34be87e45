"""Bundles of ranks that mpirun has started."""

from __future__ import annotations

import re
import sys

from launched import Job
from mpis import MPI, Mpirun, finish, start
from stuck_programs import FAULTS

_SLEEPS = FAULTS[0]


@MPI
def test_a_stall_under_mpirun_leaves_a_bundle(job: Job, mpirun: Mpirun) -> None:
    """A shell for each rank: the ranks have no parent in common."""
    dumps = job.directory / "dumps"
    command, variables = mpirun(3)
    ranks = [*command, "sh", "-c", '"$@"; exit $?', "sh", sys.executable]
    variables |= {**_SLEEPS.variables, "HVDLITE_STALL_DUMP": str(dumps)}
    codes, output = finish(start(job, [*ranks, str(_SLEEPS.write(job.directory))], **variables))
    assert codes != [0], output
    (folder,) = dumps.iterdir()
    assert len(list(folder.glob("stall.rank?.json"))) == 3
    told = job.explain(dumps)
    assert re.search(_SLEEPS.pattern(), told.splitlines()[1]), told
    assert "rank 1 in train.py:" in told and "no file" not in told
