"""The handler that XLA calls for tensors on a GPU (csrc/ingraph/xla.cc), with frames of our own and
the fake GPU of tests/fake_gpu: neither JAX nor TensorFlow has a device here."""

from __future__ import annotations

import fake_gpu
import pytest
from launched import Job
from test_gpu_programs import BEGIN, END, PATIENTLY

pytestmark = pytest.mark.watchdog(120)  # the first builds the fake

XLA = """
import xla_frames
from hvdlite.base.operations import ALLGATHER, ALLREDUCE, ALLTOALL, BROADCAST, REDUCESCATTER
from hvdlite.adapter import xla
from hvdlite.core.operations import Call
Array = gpu_arrays.Array

def run(operation, arrays, shapes=None, name="x", op=hvd.Sum, root=0, factors=(1.0, 1.0),
        process_set=hvd.global_process_set):
    call = Call(operation, name, process_set, op, *factors, root)
    return xla_frames.call(arrays, shapes, xla.attributes(call, name))

def made(*arguments, **more):
    results, error = run(*arguments, **more)
    assert error is None, error
    return results
"""


def run(job: Job, text: str, way: str, *, ranks: int = 2, **extra: str) -> str:
    script = job.script(BEGIN + XLA + text + END)
    environment = fake_gpu.environment() | {"HVDLITE_GPU_OPERATIONS": way} | extra
    done = job.end_well("-np", str(ranks), "python", script, "Array", way, **environment)
    said = done.stdout.decode()
    assert all(f"fine {rank}" in said for rank in range(ranks))
    return said


EVERY_KIND = """
assert xla_frames.metadata() == (0, 1, 0)
for step in range(3):
    x = np.arange(3000, dtype=np.float32) + rank
    total = sum(np.arange(3000, dtype=np.float32) + r for r in range(size))
    same(made(ALLREDUCE, [Array(x)])[0], total)
    same(made(ALLREDUCE, [Array(x)], op=hvd.Average, factors=(2.0, 0.5))[0],
         total / np.float32(size))
    many = [np.full(n, n + rank, t) for n in (0, 1, 7, 5000)
            for t in (np.float64, np.float16, np.int32)]
    sums = made(ALLREDUCE, [Array(v) for v in many], name="many")
    for seen, value in zip(sums, many):
        same(seen, (size * (value - rank) + sum(range(size))).astype(value.dtype))
    # A chain, in which nobody waits for the device but the next call's stream.
    chained = Array(x)
    for _ in range(5):
        chained = made(ALLREDUCE, [chained], name="chain", op=hvd.Average)[0]
    same(chained, total / np.float32(size))
    same(made(BROADCAST, [Array(x)], root=size - 1)[0], x - rank + size - 1)
    rows = np.full((2, 3), rank, np.int64)
    whole = np.concatenate([np.full((2, 3), r, np.int64) for r in range(size)])
    same(made(ALLGATHER, [Array(rows)], [whole.shape])[0], whole)
    nothing = np.zeros((0, 3), np.float32)
    both = made(ALLGATHER, [Array(rows), Array(nothing)], [whole.shape, (0, 3)], name="both")
    same(both[0], whole)
    same(both[1], nothing)
    parts = np.arange(3 * size, dtype=np.int32) * (rank + 1)
    own = np.arange(3 * rank, 3 * rank + 3, dtype=np.int32)
    same(made(ALLTOALL, [Array(parts)])[0], np.concatenate([own * (r + 1) for r in range(size)]))
    same(made(REDUCESCATTER, [Array(parts)], [(3,)])[0], own * sum(r + 1 for r in range(size)))
    same(made(ALLREDUCE, [Array(np.zeros((0, 4), np.float16))])[0], np.zeros((0, 4), np.float16))
"""


@pytest.mark.parametrize(("way", "ranks"), [("stage", 3), ("nccl", 3), ("nccl", 1)])
def test_every_kind_of_call_with_random_delays(job: Job, way: str, ranks: int) -> None:
    run(
        job,
        EVERY_KIND,
        way,
        ranks=ranks,
        HVDLITE_DEBUG_DELAY_MICROSECONDS="100",
        HVDLITE_GPU_CHUNK_BYTES="4096",
    )


HELD = """
made(ALLREDUCE, [Array(np.ones(10, np.float32))])  # NCCL is there
late = Array(np.full(1000, rank, np.float32))
gpu.hold(True)
first = made(ALLREDUCE, [late], name="first")
second = made(ALLREDUCE, first, name="second")
gathered = made(ALLGATHER, second, [(1000 * size,)], name="gathered")
gpu.hold(False)
total = np.full(1000, size * sum(range(size)), np.float32)
same(second[0], total)
same(gathered[0], np.tile(total, size))
"""


def test_the_call_returns_before_the_device_has_begun(job: Job) -> None:
    run(job, HELD, "nccl")


WRONG = """
xla_frames.stream_fails = True
assert run(ALLREDUCE, [Array(np.ones(3, np.float32))])[1] == "no stream"
xla_frames.stream_fails = False
error = run(ALLREDUCE, [Array(np.ones(3 + rank, np.float32))], name="shapes")[1]
assert error.startswith("9: hvdlite.MismatchError") and "shapes" in error, error
error = run(ALLGATHER, [Array(np.ones((2, 2), np.float32))], [(3, 2)], name="rows")[1]
assert "the result has shape [6, 2], but the function was compiled for [3, 2]" in error, error
pair = hvd.add_process_set([0, 1])
if rank < 2:
    same(made(ALLREDUCE, [Array(np.ones(3, np.float32))], process_set=pair)[0],
         np.full(3, 2, np.float32))
attributes = xla.attributes(Call(ALLREDUCE, "x", pair, hvd.Sum), "x")
hvd.remove_process_set(pair)
error = xla_frames.call([Array(np.ones(3, np.float32))], None, attributes)[1]
assert "has been removed" in error, error
same(made(ALLREDUCE, [Array(np.ones(3, np.float32))])[0], np.full(3, size, np.float32))
"""


def test_mistakes_are_xlas_errors_and_the_job_goes_on(job: Job) -> None:
    run(job, WRONG, "nccl", ranks=3)


LOST = """
import os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)  # the launcher's, which comes at once
hvd.barrier()  # both are deaf to it: a call returns before the others have begun theirs
made(ALLREDUCE, [Array(np.ones(1000, np.float32))])
if rank == 1:
    while not os.path.exists("asks"):
        time.sleep(0.001)  # poll
    os.kill(os.getpid(), signal.SIGKILL)
open("asks", "w").close()
error = run(ALLREDUCE, [Array(np.ones(1000, np.float32))], name="never")[1]
assert error.startswith("2: hvdlite.PeerLostError (rank 1): "), error
survivor = Array(np.arange(5, dtype=np.float32))
assert np.array_equal(survivor.numpy(), np.arange(5)), "XLA's stream goes on"
print("heard", flush=True)
"""


def test_a_lost_peer_is_an_error_of_the_call(job: Job) -> None:
    script = job.script(BEGIN + XLA + LOST)
    environment = fake_gpu.environment() | {"HVDLITE_GPU_OPERATIONS": "nccl"}
    done = job.run("-np", "2", *PATIENTLY, "python", script, "Array", "nccl", **environment)
    assert "heard" in done.stdout.decode(), done.stdout.decode() + done.stderr.decode()
