"""What a job says when a reduction takes a number that is not finite, and when ranks have different
results."""

from __future__ import annotations

import sys

import pytest
from launched import Job

_NAN = """
import numpy as np, sys
import hvdlite as hvd
hvd.init()
rank = hvd.rank()
for step in range(8):
    layers = {f"layer{i}": np.ones(4096, np.float32) for i in range(4)}
    if rank == 2 and step == 5:
        layers["layer2"][17] = np.nan
    handles = [hvd.allreduce_async_(x, name=name) for name, x in layers.items()]
    for handle in handles:
        hvd.synchronize(handle)
    loss = hvd.allreduce(np.full(3, layers["layer2"].max()), name="loss")
hvd.shutdown()
"""

# A rank that flushes subnormal numbers to zero adds up another sum than the others.
_ROUNDS_DIFFERENTLY = """
import torch
import hvdlite.torch as hvd
hvd.init()
torch.set_flush_denormal(hvd.rank() == 1)
while True:
    hvd.allreduce(torch.full((64,), 1e-40), op=hvd.Sum, name="tiny")
"""


def _run(job: Job, program: str, **variables: str) -> tuple[int, str]:
    done = job.run("-np", "3", sys.executable, "-c", program, **variables)
    return done.returncode, done.stderr.decode()


@pytest.mark.parametrize("ways", ["auto", "net"])
def test_the_first_nan_is_named_once_with_its_rank_tensor_and_element(job: Job, ways: str) -> None:
    code, said = _run(job, _NAN, HVDLITE_NAN_WATCH="1", HVDLITE_CPU_OPERATIONS=ways)
    assert code == 0, said
    told = [line for line in said.splitlines() if "NaN" in line]
    assert len(told) == 1, said
    assert (
        "rank 2 is the first to submit a NaN or an infinity: element 17 of 4096 of "
        "allreduce 'layer2'." in told[0]
    )


def test_nothing_is_said_of_a_nan_unless_the_watch_is_asked_for(job: Job) -> None:
    code, said = _run(job, _NAN)
    assert code == 0
    assert "NaN" not in said


@pytest.mark.costly
def test_a_rank_whose_processor_rounds_differently_is_named(job: Job) -> None:
    code, said = _run(job, _ROUNDS_DIFFERENTLY, HVDLITE_DRIFT="error", HVDLITE_SHM_MEETINGS="0")
    assert code != 0
    assert "rank 1 has another result than the other 2 ranks of allreduce 'tiny'." in said, said
