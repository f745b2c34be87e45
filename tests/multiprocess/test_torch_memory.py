"""Gradients find the memory of the last step again. Page faults are counted, not seconds."""

from __future__ import annotations

import pytest
from installed import needs_installed
from launched import Job

needs_installed("torch")

# 144 MiB of gradients, 36 MiB each, are 36864 pages: glibc takes blocks of more than 32 MiB from the system, whatever came before.
_FAULTS = """
import resource, torch, hvdlite.torch as hvd
torch.set_num_threads(1)
hvd.init()
net = torch.nn.Sequential(*[torch.nn.Linear(3072, 3072, bias=False) for _ in range(4)])
optimizer = hvd.DistributedOptimizer(torch.optim.SGD(net.parameters(), lr=0.1), net.named_parameters())
x = torch.ones(1, 3072)
counts = []
for step in range(9):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    optimizer.zero_grad()
    net(x).sum().backward()
    optimizer.step()
    counts.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
print("faults", *counts)
print("median", sorted(counts)[4], flush=True)
"""


def _faults(job: Job, **environment: str) -> list[int]:
    done = job.run("-np", "2", "python", job.script(_FAULTS), **environment)
    assert done.returncode == 0, done.stderr.decode()
    counts = [int(line.split()[-1]) for line in done.stdout.decode().splitlines() if "median" in line]
    assert len(counts) == 2
    return counts


def test_gradients_fault_no_pages_in_once_they_have_been_there(job: Job) -> None:
    assert all(count < 500 for count in _faults(job))


@pytest.mark.parametrize("said", [{"HVDLITE_KEEP_MEMORY": "0"}, {"MALLOC_TRIM_THRESHOLD_": "131072"}], ids=str)
def test_memory_is_left_to_glibc_where_somebody_says_so(job: Job, said: dict[str, str]) -> None:
    assert all(count > 10000 for count in _faults(job, **said))
