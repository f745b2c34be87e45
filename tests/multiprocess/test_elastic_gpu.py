"""Elastic jobs with arrays on a GPU, the fake one of tests/fake_gpu: each generation has
communicators of its own, and the GPU of a survivor is as good as before."""

from __future__ import annotations

from pathlib import Path

import fake_gpu
import pytest
from elastic_hosts import QUICK
from launched import Job

HERE = Path(__file__).resolve().parent
pytestmark = pytest.mark.watchdog(240)  # the first builds the fake

# The second member dies in its fifth step: in the call that `symbol` names, or between two of them.
PROGRAM = f"""
import ctypes, os, signal, sys, time
sys.path.insert(0, {str(HERE)!r})
import numpy as np
import gpu_arrays
import hvdlite as hvd

WAY, LIBRARY, SYMBOL = sys.argv[1:]
MEMBER = int(os.environ["HVDLITE_MEMBER"])
hvd.init()
gpu = gpu_arrays.device(hvd.elastic.slot())
kind = gpu_arrays.QuickArray
state = hvd.elastic.ObjectState(hvd.broadcast_object, hvd.rank, step=0)
sizes = []

def die():
    if LIBRARY == "cuda":
        gpu.cuda.fake_cuda_fail(SYMBOL.encode(), 1, 1, -9)
    elif LIBRARY == "nccl":
        nccl = ctypes.CDLL(os.environ["HVDLITE_NCCL_LIBRARY"])
        nccl.fake_nccl_fail(SYMBOL.encode(), -1, 1, -9)
    else:
        os.kill(os.getpid(), signal.SIGKILL)

def step():
    rank, size = hvd.rank(), hvd.size()
    mine = kind(np.full(3000, state.step + 1, np.float32))
    handles = [hvd.allreduce_async_(kind(np.ones(20 + n, np.float32)), name=f"x{{n}}", op=hvd.Sum)
               for n in range(3)]
    hvd.allreduce_(mine, op=hvd.Sum, name="mine")
    assert (mine.numpy() == size * (state.step + 1)).all(), (mine.numpy(), size, state.step)
    rows = hvd.allgather(kind(np.full((rank + 1, 2), rank, np.float32)), name="rows")
    assert rows.numpy().sum() == sum(2 * r * (r + 1) for r in range(size))
    for n, handle in enumerate(handles):
        assert (hvd.synchronize(handle).numpy() == size).all(), n

@hvd.elastic.run
def train(state):
    sizes.append(hvd.size())
    here = 0  # steps of this generation, which all of its members make
    while hvd.elastic.generation() == 1 or hvd.size() < 3 or here < 3:
        if MEMBER == 2 and state.step == 4:
            die()
        step()
        state.step += 1
        here += 1
        state.commit()
    explained = hvd._core.explain(0)
    assert ("nccl" if WAY == "nccl" else "stage") in explained, explained

train(state)
assert gpu.complaints() == "", gpu.complaints()
print("fine", MEMBER, *sizes, flush=True)
"""

DEATHS = [
    ("nccl", "", "between"),
    ("nccl", "nccl", "ncclAllReduce"),
    ("nccl", "nccl", "operation"),
    ("nccl", "cuda", "cuStreamWaitEvent"),
    ("stage", "", "between"),
]


@pytest.mark.costly
@pytest.mark.parametrize(("way", "library", "symbol"), DEATHS)
def test_survivors_and_a_newcomer_reduce_on_their_gpus(
    job: Job, way: str, library: str, symbol: str
) -> None:
    script = job.script(PROGRAM)
    environment = fake_gpu.environment() | {"HVDLITE_GPU_OPERATIONS": way}
    done = job.end_well(
        "-np", "3", "--min-np", "2", *QUICK, "python", script, way, library, symbol, **environment
    )
    said = done.stdout.decode()
    # The survivors may go on alone before the newcomer has come.
    fine = {line.split("fine ")[1].split()[0]: line for line in said.splitlines() if "fine" in line}
    assert set(fine) == {"1", "3", "4"}, said + done.stderr.decode()
    for member in ("1", "3"):
        assert fine[member].split()[-3:] == ["3", "2", "3"], fine
