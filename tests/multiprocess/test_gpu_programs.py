"""Programs with arrays on a GPU, the fake one of tests/fake_gpu, under hvdliterun: by capsules, by
DLPack's exchange table."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import fake_gpu
import pytest
from bare_ranks import PROMPT
from launched import Job
from machine import within
from runner import sources_without_module

HERE = Path(__file__).resolve().parent
pytestmark = pytest.mark.watchdog(240)  # the first builds the fake

BEGIN = f"""
import sys
sys.path.insert(0, {str(HERE)!r})
import numpy as np
import gpu_arrays
import hvdlite as hvd
hvd.init()
gpu = gpu_arrays.device(hvd.local_rank())
rank, size = hvd.rank(), hvd.size()
kind = getattr(gpu_arrays, sys.argv[1])
def same(array, expected):
    assert type(array).__module__ == "gpu_arrays", type(array)
    seen = array.numpy()
    assert seen.dtype == expected.dtype and seen.shape == expected.shape, (seen.dtype, seen.shape)
    assert np.array_equal(seen, expected), (seen, expected)
"""

END = """
explained = hvd._core.explain(0)
assert ("nccl" if sys.argv[2] == "nccl" else "stage") in explained, explained
hvd.shutdown()
assert gpu.complaints() == "", gpu.complaints()
print("fine", rank, flush=True)
"""


# Survivors ignore the launcher's SIGTERM. They end by themselves, when they have said what they
# found.
PATIENTLY = ("--grace-seconds", "60")


def run(job: Job, text: str, kind: str, way: str, *, ranks: int = 3, **extra: str) -> str:
    script = job.script(BEGIN + text + END)
    environment = fake_gpu.environment() | {"HVDLITE_GPU_OPERATIONS": way} | extra
    done = job.end_well("-np", str(ranks), "python", script, kind, way, **environment)
    said = done.stdout.decode()
    assert all(f"fine {rank}" in said for rank in range(ranks))
    return done.stderr.decode()


ALL_KINDS = """
for step in range(3):
    x = np.arange(3000, dtype=np.float32) + rank
    total = sum(np.arange(3000, dtype=np.float32) + r for r in range(size))
    same(hvd.allreduce(kind(x), op=hvd.Sum), total)
    same(hvd.allreduce(kind(x)), total / np.float32(size))
    mine = kind(x)
    assert hvd.allreduce_(mine, op=hvd.Sum) is mine
    same(mine, total)
    same(hvd.allreduce(kind(x), op=hvd.Max), x - rank + size - 1)
    same(hvd.broadcast(kind(x), 1), x - rank + 1)
    rows = np.full((rank + 1, 2), rank, np.int64)
    same(hvd.allgather(kind(rows)),
         np.concatenate([np.full((r + 1, 2), r, np.int64) for r in range(size)]))
    whole = np.arange(3 * size, dtype=np.int32) * (rank + 1)
    part, received = hvd.alltoall(kind(whole), splits=[3] * size)
    own = np.arange(3 * rank, 3 * rank + 3, dtype=np.int32)
    same(part, np.concatenate([own * (r + 1) for r in range(size)]))
    assert list(received) == [3] * size
    same(hvd.reducescatter(kind(whole), op=hvd.Sum), own * sum(r + 1 for r in range(size)))
    root = step % size
    total = np.arange(3 * size, dtype=np.int32) * sum(r + 1 for r in range(size))
    same(hvd.reduce(kind(whole), root, op=hvd.Sum), total if rank == root else whole)
    same(hvd.allreduce(kind(np.array([rank == 0])), op=hvd.Sum), np.array([True]))
    same(hvd.allreduce(kind(np.zeros((0, 4), np.float16)), op=hvd.Sum),
         np.zeros((0, 4), np.float16))
    same(hvd.allreduce(kind(x), op=hvd.Adasum), hvd_on_host(x))
"""


@pytest.mark.parametrize(
    ("kind", "way"), [("Array", "stage"), ("QuickArray", "stage"), ("QuickArray", "nccl")]
)
def test_every_operation_gives_what_it_gives_on_the_host(job: Job, kind: str, way: str) -> None:
    helper = "hvd_on_host = lambda x: hvd.allreduce(x, op=hvd.Adasum)\n"
    run(job, helper + ALL_KINDS, kind, way, ranks=2, HVDLITE_GPU_CHUNK_BYTES="4096")


ENCODED = """
from hvdlite import _core
number, _ = _core.codecs()["int8"]
def encoded(x, residual, step, output=None):
    handle = _core.submit_encoded(1, 0, "e", x, output, 1.0, 1.0, number, 0.0, residual, 7, step,
                                  False)
    return _core.wait(handle)[0]
kept, there = np.zeros(5000, np.float32), kind(np.zeros(5000, np.float32))
rng = np.random.default_rng(rank)
for step in range(3):
    x = rng.standard_normal(5000).astype(np.float32)
    want = encoded(x, kept, step)
    if step == 2:
        mine = kind(x)
        encoded(mine, there, step, mine)
        same(mine, want)
    else:
        same(gpu_arrays.from_dlpack(encoded(kind(x), there, step)), want)
    same(there, kept)
assert "encoded on GPU" in hvd.metrics()["carried_by"]
try:
    encoded(kind(x), kept, 3)
except ValueError as error:
    assert "on the tensor's device" in str(error), error
else:
    raise AssertionError("a residual on the host was taken")
"""


@pytest.mark.parametrize(
    ("kind", "way"), [("Array", "stage"), ("QuickArray", "stage"), ("QuickArray", "nccl")]
)
def test_an_encoded_allreduce_gives_what_it_gives_on_the_host(
    job: Job, kind: str, way: str
) -> None:
    run(job, ENCODED, kind, way, HVDLITE_GPU_CHUNK_BYTES="4096")


@pytest.mark.parametrize("kind", ["Array", "QuickArray"])
def test_a_python_without_a_compiled_module_does_both(job: Job, kind: str) -> None:
    text = """
hvd_on_host = lambda x: hvd.allreduce(x, op=hvd.Adasum)
assert hvd._core.__file__.endswith("_core.py"), hvd._core.__file__
"""
    environment = {"PYTHONPATH": sources_without_module(), "HVDLITE_GPU_CHUNK_BYTES": "4096"}
    run(job, text + ALL_KINDS + ENCODED, kind, "stage", ranks=2, **environment)


MANY = """
rng = np.random.default_rng(rank)
for step in range(3):
    pairs = {i: (v := np.arange(1 + 50 * i, dtype=np.float32) + step, kind(v))
             for i in rng.permutation(40)}
    handles = {i: hvd.allreduce_async_(a, name=f"g{i}", op=hvd.Sum) for i, (_, a) in pairs.items()}
    grouped = hvd.grouped_allreduce_async([kind(np.full(10, r, np.float32)) for r in range(5)],
                                          op=hvd.Sum)
    for i in rng.permutation(40):
        hvd.synchronize(handles[i])
        same(pairs[i][1], pairs[i][0] * size)
    for r, array in enumerate(hvd.synchronize(grouped)):
        same(array, np.full(10, r * size, np.float32))
"""


@pytest.mark.parametrize(
    ("kind", "way"), [("Array", "stage"), ("QuickArray", "stage"), ("QuickArray", "nccl")]
)
def test_many_at_once_with_random_delays(job: Job, kind: str, way: str) -> None:
    run(job, MANY, kind, way, HVDLITE_DEBUG_DELAY_MICROSECONDS="100", FAKE_CUDA_SEED="7")


POLL = """
import time
late = kind(np.ones(10, np.float32))
gpu.hold(True)
handle = hvd.allreduce_async_(late, name="late", op=hvd.Sum)
time.sleep(0.2)  # span: in which it would be done
assert not hvd.poll(handle)
gpu.hold(False)
while not hvd.poll(handle):
    time.sleep(0.001)  # poll
hvd.synchronize(handle)
same(late, np.full(10, size, np.float32))
forgotten = hvd.allreduce_async(kind(np.ones(1000, np.float32)))
"""


def test_poll_says_when_the_device_is_done_and_a_forgotten_handle_harms_nobody(job: Job) -> None:
    run(job, POLL, "QuickArray", "stage")
    run(job, POLL, "QuickArray", "nccl")


MISTAKES = """
from hvdlite.exceptions import MismatchError
try:
    hvd.allreduce(kind(np.ones(3, np.float32)) if rank else np.ones(3, np.float32), name="x")
except MismatchError as error:
    assert "on the CPU" in str(error) and "on a GPU" in str(error), error
else:
    raise AssertionError("no error")
same(hvd.allreduce(kind(np.ones(3, np.float32)), op=hvd.Sum), np.full(3, size, np.float32))
result = hvd._core.run(1, 1, 0, "rows", kind(np.ones((1, 2), np.float32)), None, 0, 1.0, 1.0, [])[0]
assert result.shape == (size, 2) and result.dtype == "float32"
assert result.__dlpack_device__() == (2, rank)
"""


def test_mistakes_are_errors_and_the_job_goes_on(job: Job) -> None:
    run(job, MISTAKES, "QuickArray", "stage", ranks=2)


JOIN = """
for step in range(rank + 1):
    same(hvd.allreduce(kind(np.ones(2000, np.float32)), name=f"x{step}", op=hvd.Sum),
         np.full(2000, size - step, np.float32))
assert hvd.join() == size - 1
"""


@pytest.mark.parametrize("way", ["stage", "nccl"])
def test_ranks_that_have_joined_give_zeros(job: Job, way: str) -> None:
    run(job, JOIN, "Array", way)


FORK = """
import os
same(hvd.allreduce(kind(np.ones(100, np.float32)), op=hvd.Sum), np.full(100, size, np.float32))
held = hvd._core.run(1, 1, 0, "rows", kind(np.ones((1, 2), np.float32)), None, 0, 1.0, 1.0, [])[0]
child = os.fork()
if child == 0:
    del held
    try:
        hvd.allreduce(np.ones(3))
    except Exception:
        os._exit(0)
    os._exit(1)
assert os.waitpid(child, 0)[1] == 0
same(hvd.allreduce(kind(np.ones(100, np.float32)), op=hvd.Sum), np.full(100, size, np.float32))
del held
"""


def test_a_forked_child_touches_no_gpu(job: Job) -> None:
    run(job, FORK, "QuickArray", "stage", ranks=2)


KILLED = """
import os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)  # the launcher's, which comes at once
same(hvd.allreduce(kind(np.ones(1000, np.float32)), op=hvd.Sum), np.full(1000, size, np.float32))
if rank == 1:
    never = kind(np.ones(1000, np.float32))
    gpu.hold(True)
    hvd.allreduce_async_(never, name="never")
    print("goes", flush=True)
    while not all(os.path.exists(f"waits.{other}") for other in (0, 2)):
        time.sleep(0.001)  # poll
    os.kill(os.getpid(), signal.SIGKILL)
begun = time.monotonic()
try:
    handle = hvd.allreduce_async_(kind(np.ones(1000, np.float32)), name="never")
    open(f"waits.{rank}", "w").close()
    hvd.synchronize(handle)
except hvd.HorovodInternalError as error:
    print(f"rank {rank} after {time.monotonic() - begun:.2f} s: {error}", flush=True)
    survivor = kind(np.arange(5, dtype=np.float32))
    assert np.array_equal(survivor.numpy(), np.arange(5)), "the GPU is as good as before"
    raise SystemExit(0)
"""


@pytest.mark.parametrize("way", ["stage", "nccl"])
def test_the_death_of_a_rank_is_news_at_once_and_the_gpu_survives(job: Job, way: str) -> None:
    script = job.script(BEGIN + KILLED + END)
    begun = time.monotonic()
    # Its silence would tell, too, in time: not here.
    environment = fake_gpu.environment() | {
        "HVDLITE_GPU_OPERATIONS": way,
        "HVDLITE_HEARTBEAT_SECONDS": "0",
    }
    done = job.run("-np", "3", *PATIENTLY, "python", script, "QuickArray", way, **environment)
    said = done.stdout.decode()
    assert time.monotonic() - begun < within(60)
    assert done.returncode != 0
    assert f"{signal.SIGKILL.name}" in done.stderr.decode() or "killed" in done.stderr.decode()
    for rank in (0, 2):
        line = next(line for line in said.splitlines() if f"rank {rank} after" in line)
        assert "rank 1" in line.split(": ", 1)[1]
        # From when it began to wait, which may be before the death.
        assert float(line.split("after ")[1].split()[0]) < 2 * within(PROMPT), line
