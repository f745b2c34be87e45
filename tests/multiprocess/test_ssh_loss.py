"""A job between hosts whose network loses packets: TCP sends them again, and the job only takes
longer."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import sshd
from far_jobs import far_job
from launched import Job, prefixed
from network import Network, why_not_loss

_WHY_NOT = why_not_loss() or sshd.why_not()
pytestmark = [
    pytest.mark.skipif(_WHY_NOT is not None, reason=str(_WHY_NOT)),
    pytest.mark.watchdog(120),
]

PERCENT = 5  # of all packets, on each way
SUMS = """
import numpy as np, hvdlite as hvd
hvd.init()
rank, size = hvd.rank(), hvd.size()
places = size * (size - 1) // 2  # the sum of all ranks
def of(n): return np.arange(n, dtype=np.float32) % 1000
for step in range(3):
    for n in (1, 1000, 262_144):  # the last one has 1 MiB
        found = hvd.allreduce(of(n) + rank, op=hvd.Sum, name=f"sum.{n}")
        assert (found == size * of(n) + places).all(), (step, n)
    sizes = (1, 64, 5000, 100_000)
    group = hvd.grouped_allreduce([of(n) + rank for n in sizes], op=hvd.Sum, name="group")
    for n, found in zip(sizes, group):
        assert (found == size * of(n) + places).all(), (step, n)
print("exact")
"""


def test_a_job_whose_network_loses_a_twentieth_of_all_packets_ends_well(
    job: Job, tmp_path: Path
) -> None:
    """Neither ssh, nor the agents, nor the store, nor the ranks' links take loss for an end."""
    with Network(2, tag="loss") as network:
        network.lose_packets(PERCENT)
        with far_job(job, network, tmp_path) as far:
            done = far.run("-H", "a:2,b:2", sys.executable, job.script(SUMS))
        lost = [network.lost_packets(host) for host in (0, 1)]
    assert done.returncode == 0, done.stderr
    assert [prefixed(done.stdout, rank) for rank in range(4)] == [["exact"]] * 4, done.stdout
    assert min(lost) > 0, lost
