"""Elastic jobs in a real Slurm allocation of two nodes: row 35 of the design's table of faults."""

from __future__ import annotations

import re
import signal
import subprocess
from collections import Counter
from itertools import pairwise

import pytest
import slurm
from elastic_hosts import QUICK, HostsJob
from launched import last_line
from slurm_jobs import HVDLITERUN, PYTHON, Slurm
from waiting import wait_until

_WHY_NOT = slurm.why_not()
pytestmark = pytest.mark.skipif(_WHY_NOT is not None, reason=f"no Slurm: {_WHY_NOT}")

# No ssh leads to the nodes: their names are known to Slurm alone.
ALLOCATION = ("salloc", "--quiet", "--no-kill", "-N2", "-n4", "--ntasks-per-node=2")


LEAVES = """
import os, time
import numpy as np
import hvdlite as hvd
hvd.init()
state = hvd.elastic.ObjectState(hvd.broadcast_object, hvd.rank, step=0)
state.register_leave_callbacks([lambda notice: print("saved at", state.step, flush=True)])

@hvd.elastic.run
def train(state):
    open("trains." + os.environ["HVDLITE_MEMBER"], "w").close()
    while True:
        hvd.allreduce(np.ones(3), name="gradient")
        state.step += 1
        state.commit()
        time.sleep(0.002)  # poll
train(state)
"""


@pytest.fixture
def hosts(cluster_: Slurm) -> HostsJob:
    return HostsJob(cluster_.job)


def start(cluster_: Slurm, program: str, *arguments: str) -> subprocess.Popen[bytes]:
    command = (*HVDLITERUN, "--min-np", "2", *QUICK, *arguments, PYTHON, program)
    return cluster_.start(*ALLOCATION, *command)


def test_srun_reaches_the_nodes_of_the_allocation(cluster_: Slurm, hosts: HostsJob) -> None:
    process = start(cluster_, hosts.program)
    hosts.wait_for_size(4, 1, 2, 3, 4)
    assert [hosts.reports(each)[-1][1:5] for each in (1, 2, 3, 4)] == [
        [0, 4, 0, 2],
        [1, 4, 1, 2],
        [2, 4, 0, 2],
        [3, 4, 1, 2],
    ]
    hosts.finish(process, 4, planned=True)


def test_a_job_goes_on_without_a_node_that_is_down(cluster_: Slurm, hosts: HostsJob) -> None:
    process = start(cluster_, hosts.program)
    hosts.wait_for_size(4, 1, 2, 3, 4)
    cluster_.ask("scontrol", "update", "nodename=n2", "state=down", "reason=test")
    try:
        hosts.wait_for_size(2, 1, 2)
        err = hosts.finish(process, 2)
    finally:
        # It may be up already: its daemon is alive.
        cluster_.run("scontrol", "update", "nodename=n2", "state=resume")
    assert "host n2 was lost: srun " in err


def test_a_preempted_job_saves_and_ends(cluster_: Slurm) -> None:
    process = start(cluster_, cluster_.job.script(LEAVES))
    wait_until(lambda: len(list(cluster_.job.directory.glob("trains.*"))) == 4)
    cluster_.ask("scancel", "--signal=TERM", cluster_.ask("squeue", "-h", "-o", "%i").strip())
    out, err = process.communicate()
    # Members may hear of it one after the other: those that are left save again.
    saved = Counter(re.findall(r"saved at (\d+)", out.decode()))
    counts = list(saved.values())
    assert counts[0] == 4, (saved, err.decode())
    assert all(fewer < before for before, fewer in pairwise(counts)), (saved, err.decode())
    assert process.returncode == 128 + signal.SIGTERM
    assert last_line(err) == "hvdliterun: all members were asked to leave, and have left."


def test_a_host_outside_the_allocation_is_named(cluster_: Slurm, hosts: HostsJob) -> None:
    process = start(cluster_, hosts.program, "-H", "n1:2,elsewhere:2", "--srun")
    hosts.wait_for_size(2, 1, 2)
    err = hosts.finish(process, 2)
    assert err.count("host elsewhere: it is no node of this Slurm allocation") == 1
