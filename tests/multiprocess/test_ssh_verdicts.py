"""The verdict on a job of several hosts: ports that a firewall drops, a dead link, and bundles."""

from __future__ import annotations

import re
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import sshd
from far_jobs import FarJob, far_job
from launched import Job, ended, last_line
from network import Network, why_not_loss
from stuck_programs import FAULTS, Stuck
from waiting import wait_until

_WHY_NOT = why_not_loss() or sshd.why_not()
pytestmark = pytest.mark.skipif(_WHY_NOT is not None, reason=str(_WHY_NOT))

_LINK = r"rank ([01]) \(10\.77\.0\.[23]\) with rank (?!\1)[01] \(10\.77\.0\.[23]\) is interrupted: "

MEETS = Stuck(
    "a firewall drops a rank's port while the job meets",
    """
import os, time
import hvdlite as hvd
open(f"comes.{os.environ['HVDLITE_RANK']}", "w").close()
while not all(os.path.exists(f"comes.{rank}") for rank in (0, 1)): time.sleep(0.01)  # poll
os.environ["HVDLITE_START_TIMEOUT"] = "3"
hvd.init()  # @line there
""",
    r"rank [01] on [ab] exited with code 1: .*TimeoutError: "
    r"(rank 1 could not connect to rank 0 in time: 10\.77\.0\.2:\d+ does not answer \(a firewall, "
    r"|rank 1 \(10\.77\.0\.3:\d+\) did not connect to rank 0, which listens at 10\.77\.0\.2:\d+, "
    r"in time).* at train\.py:{there}\. All other ranks have ended, too\.",
    variables={},
    prelude="",
)
_TRAINS = """
while True:
    step()
    open(f"ready.{rank}", "w").close()
"""
RUNS = Stuck(
    "a firewall drops a rank's port while the job trains",
    _TRAINS,
    rf"rank [01] on [ab] exited with code 1: .*PeerLostError: the connection of {_LINK}.+ Both "
    r"hosts are alive and answer hvdliterun: the network between a and b is silent\.",
    variables={"HVDLITE_HEARTBEAT_SECONDS": "1"},
)
DEAD = Stuck(
    "a dead link",
    _TRAINS,
    rf"host b was lost: |rank 0 on a exited with code 1: .*the connection of {_LINK}",
    variables={"HVDLITE_HEARTBEAT_SECONDS": "2"},
)


@pytest.fixture
def network() -> Iterator[Network]:
    with Network(2, tag="verdict") as network:
        yield network


@pytest.fixture
def far(job: Job, network: Network, tmp_path: Path) -> Iterator[FarJob]:
    with far_job(job, network, tmp_path) as far:
        yield far


def _run(far: FarJob, fault: Stuck, happens: Callable[[], None] | None = None) -> None:
    """`happens()` when both ranks train."""
    script = str(fault.write(far.job.directory))
    process = far.start("-H", "a:1,b:1", sys.executable, script, **fault.variables)
    if happens is not None:
        far.job.wait_ready(2)
        happens()
    _, err = process.communicate()
    assert process.returncode != 0, err.decode()
    assert re.search(fault.pattern(), last_line(err)), err.decode()


@pytest.mark.full
def test_a_port_that_is_blocked_while_the_ranks_meet(far: FarJob, network: Network) -> None:
    network.raise_a_wall(0, source=1)
    _run(far, MEETS)
    assert network.dropped_packets(0) > 0


def test_a_port_that_is_blocked_while_the_ranks_train(far: FarJob, network: Network) -> None:
    _run(far, RUNS, lambda: network.raise_a_wall(0, source=1))
    assert network.dropped_packets(0) > 0


@pytest.mark.full
def test_a_dead_link(far: FarJob, network: Network) -> None:
    _run(far, DEAD, lambda: network.pull_the_cable(1))


def test_a_stall_leaves_a_bundle_of_the_ranks_of_all_hosts(far: FarJob) -> None:
    sleeps = FAULTS[0]
    dumps = far.job.directory / "dumps"
    done = far.run(
        "-H", "a:2,b:1", "--stall-dump", str(dumps),
        sys.executable, str(sleeps.write(far.job.directory)), **sleeps.variables,
    )  # fmt: skip
    assert done.returncode != 0
    (folder,) = dumps.iterdir()
    assert len(list(folder.glob("stall.rank?.json"))) == 3
    told = far.job.explain(dumps)
    assert re.search(sleeps.pattern(), told.splitlines()[1]), told
    assert "rank 1 in train.py:" in told and "2 ranks (0, 2) in train.py:" in told


_HEALTHY = """
import os, time
import numpy as np, hvdlite as hvd
hvd.init()
open(f"ready.{hvd.rank()}", "w").close()
def train():
    # One line, so that all ranks are found in the same one at any moment.
    while not hvd.allreduce(float(os.path.exists("enough")), name="stop"): time.sleep(0.01)  # poll
train()
"""


@pytest.mark.full
def test_sigquit_to_the_launcher_asks_the_ranks_of_all_hosts(far: FarJob) -> None:
    job, dumps = far.job, far.job.directory / "dumps"
    script = job.script(_HEALTHY, "train.py")
    process = far.start("-H", "a:1,b:2", "--stall-dump", str(dumps), sys.executable, script)
    job.wait_ready(3)
    process.send_signal(signal.SIGQUIT)
    wait_until(lambda: len(list(dumps.glob("*/asked.rank?.json"))) == 3)
    (job.directory / "enough").touch()
    ended(process)
    assert "3 ranks (0, 1, 2) in train.py:" in job.explain(dumps)
