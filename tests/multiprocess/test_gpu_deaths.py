"""Ranks that are killed somewhere inside an operation on a GPU: the others hear of it, their GPUs
and they live on."""

from __future__ import annotations

import fake_gpu
import pytest
from bare_ranks import PROMPT
from launched import Job
from machine import within
from test_gpu_programs import BEGIN, PATIENTLY

pytestmark = pytest.mark.watchdog(240)  # the first builds the fake

# The victim is killed in the call that `where` names, in its first operation ("making") or when all
# is made ("going").
PROGRAM = """
import ctypes, os, signal, threading, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)  # the launcher's, which comes at once
library, symbol, when, victim = sys.argv[3], sys.argv[4].encode(), sys.argv[5], int(sys.argv[6])
pids = hvd.allgather(np.array([os.getpid()])).tolist()
nccl = ctypes.CDLL(os.environ["HVDLITE_NCCL_LIBRARY"])

def arm():
    if rank == victim and library == "cuda":
        gpu.cuda.fake_cuda_fail(symbol, 1, 1, -9)
    elif rank == victim:
        nccl.fake_nccl_fail(symbol, -1, 1, -9)

died = []
def watch():
    while True:
        try:
            os.kill(pids[victim], 0)
        except ProcessLookupError:
            died.append(time.monotonic())
            return
        time.sleep(0.005)  # poll
threading.Thread(target=watch, daemon=True).start()

def step(number):
    mine = kind(np.ones(3000, np.float32))
    handles = [hvd.allreduce_async_(kind(np.ones(20 + n, np.float32)), name=f"x{n}", op=hvd.Sum)
               for n in range(3)]
    hvd.allreduce_(mine, op=hvd.Sum, name="mine")
    same(mine, np.full(3000, size, np.float32))
    same(hvd.allgather(kind(np.ones((rank + 1, 2), np.float32)), name="rows"),
         np.ones((size * (size + 1) // 2, 2), np.float32))
    for handle in handles:
        hvd.synchronize(handle)

if when == "making":
    arm()
try:
    for number in range(30):
        if number == 2 and when == "going":
            arm()
        step(number)
    hvd.shutdown()
    raise AssertionError("nobody has died")
except hvd.HorovodInternalError as error:
    heard = time.monotonic()
    while not died:
        time.sleep(0.005)  # poll
    print(f"rank {rank} heard after {heard - died[0]:.2f} s: {error}", flush=True)
survivor = kind(np.arange(5, dtype=np.float32))
assert np.array_equal(survivor.numpy(), np.arange(5)), "the GPU is as good as before"
hvd.shutdown()
assert gpu.complaints() == "", gpu.complaints()
print(f"rank {rank} lives", flush=True)
"""


def kill(
    job: Job,
    way: str,
    library: str,
    symbol: str,
    when: str,
    victim: int = 1,
    kind: str = "QuickArray",
) -> None:
    script = job.script(BEGIN + PROGRAM)
    # Its silence would tell, too, in time: not here.
    environment = fake_gpu.environment() | {
        "HVDLITE_GPU_OPERATIONS": way,
        "HVDLITE_HEARTBEAT_SECONDS": "0",
    }
    arguments = (kind, way, library, symbol, when, str(victim))
    done = job.run("-np", "3", *PATIENTLY, "python", script, *arguments, **environment)
    said = done.stdout.decode()
    assert done.returncode != 0
    for rank in {0, 1, 2} - {victim}:
        assert f"rank {rank} lives" in said, said + done.stderr.decode()
        line = next(line for line in said.splitlines() if f"rank {rank} heard after" in line)
        assert float(line.split("after ")[1].split()[0]) < within(PROMPT), line
        assert f"rank {victim}" in line.split(": ", 1)[1], line


NCCL = [
    ("cuda", "cuDevicePrimaryCtxRetain", "making"),
    ("nccl", "ncclCommInitRankConfig", "making"),
    ("nccl", "init", "making"),
    ("cuda", "cuModuleLoadData", "making"),
    ("nccl", "ncclAllReduce", "going"),
    ("nccl", "operation", "going"),
    ("cuda", "cuStreamWaitEvent", "going"),
]


@pytest.mark.parametrize(("library", "symbol", "when"), NCCL)
def test_over_nccl(job: Job, library: str, symbol: str, when: str) -> None:
    kill(job, "nccl", library, symbol, when)
