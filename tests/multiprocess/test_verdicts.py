"""The verdict on a job that is stuck or has failed, as a tired person reads it: which rank, what,
and where in the user's code. One real job for each fault."""

from __future__ import annotations

import re
import sys
from importlib.util import find_spec

import full_disk
import pytest
from launched import Job, last_line
from stuck_programs import FAULTS, Stuck

# The tier of each commit; the tier `all` has the others, too.
OFTEN = (
    "a rank sleeps in the user's code",
    "a rank has fewer steps, and goes on behind its loop",
    "C code has the interpreter lock",
)


def _row(fault: Stuck) -> object:
    marks = [] if fault.name in OFTEN else [pytest.mark.full]
    return pytest.param(fault, marks=marks, id=fault.name.replace(" ", "_"))


@pytest.mark.parametrize("fault", [_row(fault) for fault in FAULTS])
def test_the_verdict_names_the_rank_the_fault_and_the_line(job: Job, fault: Stuck) -> None:
    if fault.needs and find_spec(fault.needs) is None:
        pytest.skip(f"{fault.needs} is not installed")
    if fault.full_disk:
        job.prefix = full_disk.prefix(job)
    script = str(fault.write(job.directory))
    done = job.run("-np", str(fault.ranks), sys.executable, script, **fault.variables)
    said = done.stderr.decode()
    assert done.returncode != 0, said
    place = said if fault.anywhere else last_line(done.stderr)
    assert re.search(fault.pattern(), place), said
