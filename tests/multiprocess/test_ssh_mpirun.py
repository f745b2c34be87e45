"""`hvdliterun --mpi` with an mpirun that starts the ranks on other hosts by ssh."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import sshd
from far_jobs import FarJob, far_job
from launched import Job
from network import Network, why_not
from stuck_programs import FAULTS

_WHY_NOT = why_not() or sshd.why_not()
pytestmark = pytest.mark.skipif(_WHY_NOT is not None, reason=str(_WHY_NOT))


@pytest.fixture
def network() -> Iterator[Network]:
    with Network(2, tag="mpirun") as network:
        yield network


@pytest.fixture
def far(job: Job, network: Network, tmp_path: Path) -> Iterator[FarJob]:
    with far_job(job, network, tmp_path) as far:
        yield far


@pytest.mark.parametrize("mpirun", ["MPICH"], indirect=True)
def test_a_rank_that_is_stuck_on_another_host_is_ended(
    far: FarJob, network: Network, mpirun: str
) -> None:
    sleeps = FAULTS[0]
    done = far.job.run(
        *("--mpi", "-np", "3", "-H", "a:1,b:2", f"--mpi-args=-localhost {network.address(-1)}"),
        *(sys.executable, str(sleeps.write(far.job.directory))),
        HVDLITE_MPIRUN=mpirun,
        HYDRA_LAUNCHER_EXTRA_ARGS=f"-F {far.hosts.config}",
        **sleeps.variables,
    )
    assert done.returncode == 1, done.stderr
    assert re.search(sleeps.pattern(), done.stderr.decode()), done.stderr
    assert far.job.wait_until_gone(3.0) == []
