"""Gradients find the memory of the last step again. Page faults are counted, not seconds."""

from __future__ import annotations

import pytest
from installed import needs_installed
from launched import Job

pytestmark = pytest.mark.costly

needs_installed("torch")

# 144 MiB of gradients, 36 MiB each, are 36864 pages: glibc takes blocks of more than 32 MiB from
# the system, whatever came before.
_FAULTS = """
import resource, sys, torch, hvdlite.torch as hvd
torch.set_num_threads(1)
hvd.init()
net = torch.nn.Sequential(*[torch.nn.Linear(3072, 3072, bias=False) for _ in range(4)])
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
optimizer = hvd.DistributedOptimizer(optimizer, net.named_parameters())
x = torch.ones(1, 3072)
counts = []
for step in range(int(sys.argv[1])):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    optimizer.zero_grad()
    net(x).sum().backward()
    optimizer.step()
    counts.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
print("faults", *counts, flush=True)
"""
_PAGES = 36864  # of all gradients


def _faults(job: Job, steps: int, **environment: str) -> list[list[int]]:
    """Of each rank, the page faults of each step, with gradients in private memory."""
    environment = {"HVDLITE_GRADIENT_POOL": "0"} | environment
    done = job.end_well("-np", "2", "python", job.script(_FAULTS), str(steps), **environment)
    of_ranks = [line.split()[1:] for line in done.stdout.decode().splitlines() if "faults" in line]
    counts = [[int(count) for count in of_rank] for of_rank in of_ranks]
    assert [len(of_rank) for of_rank in counts] == [steps, steps]
    return counts


def test_gradients_fault_hardly_a_page_in_once_they_have_been_there(job: Job) -> None:
    # The heap grows for some steps more: glibc uses pieces of a freed block elsewhere, which is
    # then too small for the next gradient.
    counts = _faults(job, 40)
    assert all(sum(of_rank[10:]) < 30 * _PAGES / 8 for of_rank in counts), counts


def test_gradients_in_shared_memory_fault_no_page_in_at_all(job: Job) -> None:
    counts = _faults(job, 6, HVDLITE_GRADIENT_POOL="1")
    assert all(sum(of_rank[2:]) < _PAGES / 100 for of_rank in counts), counts


@pytest.mark.parametrize(
    "said", [{"HVDLITE_KEEP_MEMORY": "0"}, {"MALLOC_TRIM_THRESHOLD_": "131072"}], ids=str
)
def test_memory_is_left_to_glibc_where_the_user_says_so(job: Job, said: dict[str, str]) -> None:
    counts = _faults(job, 5, **said)
    assert all(count >= _PAGES for of_rank in counts for count in of_rank), counts
