"""hvd.empty(): arrays and tensors of the program in memory that the ranks of a host share."""

from __future__ import annotations

import pytest
from installed import needs_installed
from launched import Job

pytestmark = pytest.mark.watchdog(120)

_PRELUDE = """
import gc, os, sys, threading
import numpy as np, hvdlite as hvd
from hvdlite.core import engine
def counted(way):
    return hvd.metrics()["carried_by"].get(way, {}).get("allreduce", 0)
def check(array, way):
    before = counted(way)
    array[...] = hvd.rank() + 1
    assert hvd.allreduce_(array, op=hvd.Sum) is array
    assert (array == hvd.size() * (hvd.size() + 1) / 2).all()
    assert counted(way) == before + 1, hvd.metrics()["carried_by"]
"""


def _run(job: Job, text: str, ranks: int = 2, **environment: str) -> None:
    script = job.script(_PRELUDE + text)
    done = job.run("-np", str(ranks), "python", script, **environment)
    out, err = done.stdout.decode(), done.stderr.decode()
    assert done.returncode == 0 and out.count("right") == ranks, out + err
    assert "Warning" not in err and "ignored" not in err, err


_NUMPY = """
hvd.init()
for dtype in ("float32", "float64", "float16", "int8", "int64"):
    for shape in (100_000, (300, 401), [50, 40, 30], np.array([400, 500]), (np.int32(1 << 20),)):
        array = hvd.empty(shape, dtype)
        like = np.empty(shape, dtype)
        assert (array.shape, array.dtype, array.flags.c_contiguous, array.flags.writeable) == (
            like.shape, like.dtype, True, True)
        assert hvd.in_shared_memory(array) and not hvd.in_shared_memory(like)
        assert array.ctypes.data % 64 == 0
        check(array, "shm in place")
array = hvd.empty(100_000)
assert array.dtype == np.float32
half = array[:50_000]
check(half, "shm in place")
assert hvd.in_shared_memory(half)
several = [hvd.empty(50_000, "int64") for _ in range(3)]
for each in several: each[:] = 1
hvd.grouped_allreduce_(several, op=hvd.Sum)
assert all((each == hvd.size()).all() for each in several)
assert counted("shm shares") == counted("shm exchange") == 0
del array, half, several, like, each
gc.collect()
assert engine.pool_stats().live == 0
print("right", flush=True)
"""


@pytest.mark.parametrize("ranks", [2, pytest.param(4, marks=pytest.mark.costly)])
def test_arrays_are_reduced_where_they_lie(job: Job, ranks: int) -> None:
    _run(job, _NUMPY, ranks)


_BETWEEN = """
hvd.init()
shared, private = hvd.empty(100_000), np.empty(100_000, np.float32)
for step in range(80):
    for _ in range(3):
        private[:] = 1
        hvd.allreduce_(private, op=hvd.Sum, name="private")
    before = counted("shm in place")
    shared[:] = 1
    hvd.allreduce_(shared, op=hvd.Sum, name="shared")
    assert counted("shm in place") == before + 1, (step, hvd.metrics()["carried_by"])
print("right", flush=True)
"""


def test_private_arrays_of_the_same_size_do_not_matter(job: Job) -> None:
    _run(job, _BETWEEN)


_TORCH = """
import torch, hvdlite.torch as ht
hvd.init()
for dtype in (torch.float32, torch.bfloat16, torch.float16, torch.int64):
    for size in ((100_000,), (300, 401), ([50, 40, 30],), (torch.Size([400, 500]),)):
        tensor, like = ht.empty(*size, dtype=dtype), torch.empty(*size, dtype=dtype)
        assert (tensor.shape, tensor.dtype, tensor.stride()) == (
            like.shape, like.dtype, like.stride())
        assert ht.in_shared_memory(tensor) and not ht.in_shared_memory(like)
        before = counted("shm in place")
        tensor.fill_(hvd.rank() + 1)
        assert ht.allreduce_(tensor, op=ht.Sum) is tensor
        assert bool((tensor == hvd.size() * (hvd.size() + 1) // 2).all())
        assert counted("shm in place") == before + 1
torch.set_default_dtype(torch.float64)
tensor = ht.empty(100_000)
assert tensor.dtype == torch.float64
# One memory, whoever made it.
assert torch.from_dlpack(hvd.empty(100_000)).data_ptr() % 64 == 0
array = np.from_dlpack(tensor)
assert hvd.in_shared_memory(array) and hvd.in_shared_memory(tensor)
view = torch.from_numpy(array)[5:]
assert ht.in_shared_memory(view)
parameter = torch.nn.Parameter(ht.empty(200, 200))
assert ht.in_shared_memory(parameter)
parameter.data.zero_()
(parameter + 1).sum().backward()
del tensor, parameter, like
tensor = array
check(tensor, "shm in place")
view[0] = 7
assert array[5] == 7
thread = threading.Thread(target=lambda held: held.clear(), args=([view],))
thread.start(); thread.join()
del view, tensor, array
gc.collect()
assert engine.pool_stats().live == 0
for wrong in ((-1,), (-2, -300_000), (10**12, 10**12), ("x",), (2.5,)):
    for f in (ht.empty, torch.empty):
        try: f(*wrong)
        except (RuntimeError, TypeError) as error: said = type(error)
        else: raise AssertionError(wrong)
        first = said if f is ht.empty else first
    assert said is first, wrong
assert engine.pool_stats().live == 0
print("right", flush=True)
"""


@pytest.mark.parametrize("ranks", [2, pytest.param(4, marks=pytest.mark.costly)])
def test_so_are_tensors_of_torch(job: Job, ranks: int) -> None:
    needs_installed("torch")
    _run(job, _TORCH, ranks)


_ORDINARY = """
def ordinary(array):
    assert not hvd.in_shared_memory(array), array.shape
    array[...] = 1
    assert array.sum() == array.size
    return array
"""


def test_ordinary_memory_before_init_after_shutdown_and_for_what_cannot_be_shared(job: Job) -> None:
    _run(job, _ORDINARY + """
before = ordinary(hvd.empty((300, 400)))
hvd.init()
check(before, "shm shares")
for small in ((), (0,), (5, 0), (4000,)):
    ordinary(hvd.empty(small))
things = hvd.empty(100_000, object)
assert things[5] is None and not hvd.in_shared_memory(things)
def error_of(f, shape):
    try: f(shape, np.float32)
    except Exception as error: return type(error), str(error)
for wrong in (-1, (-2, -300_000), (1 << 62, 4), (10**30,), "x", None, (2.5,), (1,) * 99):
    assert error_of(hvd.empty, wrong) == error_of(np.empty, wrong) != None, wrong
try: hvd.empty(100_000, "no such")
except TypeError: pass
else: raise AssertionError
try: hvd.empty(1 << 60)  # more than there is
except MemoryError: pass
else: raise AssertionError
assert engine.pool_stats().live == 0
shared = hvd.empty(100_000)
shared[:] = hvd.rank()
hvd.shutdown()
ordinary(hvd.empty(100_000))
assert (shared == shared[0]).all()
del shared
assert engine.pool_stats().live == 0
hvd.init()
check(hvd.empty(100_000), "shm in place")
print("right", flush=True)
""")  # fmt: skip


_NEVER = (
    _ORDINARY
    + """
hvd.init()
for _ in range(3):
    array = ordinary(hvd.empty(100_000))
    array[:] = hvd.rank() + 1
    hvd.allreduce_(array, op=hvd.Sum)
    assert (array == hvd.size() * (hvd.size() + 1) / 2).all()
assert counted("shm in place") == 0 and "gradient_pool" not in hvd.metrics()
print("right", flush=True)
"""
)


def test_ordinary_memory_with_the_knob_off(job: Job) -> None:
    _run(job, _NEVER, HVDLITE_GRADIENT_POOL="0")


def test_ordinary_memory_for_a_rank_alone(job: Job) -> None:
    _run(job, _NEVER, ranks=1)


def test_ordinary_memory_for_ranks_on_hosts_of_their_own(job: Job) -> None:
    _run(job, 'os.environ["HVDLITE_HOST_ID"] = os.environ["HVDLITE_RANK"]\n' + _NEVER)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_inside_hosts_arrays_are_reduced_where_they_lie(job: Job, dtype: str) -> None:
    _run(job, f"""
os.environ["HVDLITE_HOST_ID"] = str(int(os.environ["HVDLITE_RANK"]) // 2)
hvd.init()
random = np.random.default_rng(hvd.rank())
def results(make):
    arrays = [make(count, "{dtype}") for count in (100_000, 70_001)]
    for array in arrays: array[:] = values[array.size]
    hvd.allreduce_(arrays[0])
    hvd.grouped_allreduce_(arrays, op=hvd.Sum)
    return [array.copy() for array in arrays]
values = {{n: random.standard_normal(n).astype("{dtype}") for n in (100_000, 70_001)}}
expected = results(np.empty)
assert counted("shm in place") == 0 and counted("hierarchical") == 2
for _ in range(2):  # they are asked for every second time, after they lay elsewhere
    for makes in ((hvd.empty,) * 2, (hvd.empty, np.empty)):
        found = results(makes[hvd.rank() // 2])
        assert all((a == b).all() for a, b in zip(expected, found))
if hvd.rank() < 2: assert counted("shm in place") >= 4
print("right", flush=True)
""", ranks=4)  # fmt: skip


def test_ordinary_memory_where_files_or_addresses_are_limited(job: Job) -> None:
    _run(job, """
import resource
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 30, resource.RLIM_INFINITY))
""" + _NEVER)  # fmt: skip


def test_ordinary_memory_beyond_a_limit(job: Job) -> None:
    _run(job, """
hvd.init()
arrays = [hvd.empty(1 << 18) for _ in range(5)]
assert [hvd.in_shared_memory(array) for array in arrays] == [True] * 3 + [False] * 2
for array in arrays: check(array, "shm in place" if hvd.in_shared_memory(array) else "shm shares")
assert hvd.metrics()["gradient_pool"]["bytes"] == 3 << 20
del arrays[0]
assert hvd.in_shared_memory(hvd.empty(1 << 18))
print("right", flush=True)
""", HVDLITE_GRADIENT_POOL_BYTES=str(3 << 20))  # fmt: skip


def test_one_rank_may_have_ordinary_memory(job: Job) -> None:
    _run(job, """
hvd.init()
array = (hvd.empty if hvd.rank() else np.empty)(100_000, np.float32)
for _ in range(5): check(array, "shm shares")
assert counted("shm in place") == 0
print("right", flush=True)
""")  # fmt: skip


def test_memory_is_freed_with_the_last_view_in_any_thread(job: Job) -> None:
    _run(job, """
hvd.init()
def live(): return engine.pool_stats().live
array = hvd.empty((400, 500))
view = array[3:, ::2].T
del array
assert live() == 1
threads = [threading.Thread(target=lambda held: held.clear(), args=([view],))]
del view
for thread in threads: thread.start()
for thread in threads: thread.join()
del thread, threads
gc.collect()
assert live() == 0
# Several threads at once, each with memory of its own.
wrong = []
def work(mark):
    for i in range(200):
        array = hvd.empty(5_000 + 700 * (i % 9))
        array[:] = mark
        if not (array == mark).all(): wrong.append(mark)
threads = [threading.Thread(target=work, args=(mark,)) for mark in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
assert not wrong and live() == 0
# What is large goes back to the system.
array = hvd.empty(40 << 20)
array[:] = 1
assert engine.pool_stats().bytes > 160 << 20
del array
assert engine.pool_stats().bytes <= 64 << 20
print("right", flush=True)
""")  # fmt: skip


def test_a_child_has_a_private_copy(job: Job) -> None:
    _run(job, """
import multiprocessing
hvd.init()
array = hvd.empty((700, 400))
array[:] = 1
changed, wrote = os.pipe(), os.pipe()
child = os.fork()
if child == 0:
    os.read(changed[0], 1)
    right = bool((array == 1).all())
    array[:] = 3
    os.write(wrote[1], b"x")
    own = hvd.empty(100_000)
    own[:] = 4
    right = right and not hvd.in_shared_memory(own)
    del array
    os._exit(0 if right else 1)
array[:] = 2
os.write(changed[1], b"x")
os.read(wrote[0], 1)
assert (array == 2).all()
assert os.waitpid(child, 0)[1] == 0
check(array, "shm in place")
# Another program inherits nothing.
import subprocess
seen = subprocess.run(
    ["sh", "-c", "ls -l /proc/self/fd; cat /proc/self/maps"], stdout=subprocess.PIPE, check=True)
assert b"hvdlite-gradients" not in seen.stdout
check(array, "shm in place")
with multiprocessing.get_context("fork").Pool(2) as workers:
    assert workers.map(float, range(4)) == [0, 1, 2, 3]
    check(array, "shm in place")
# A part is shared again only after the whole.
if os.fork() == 0: os._exit(0)
os.wait()
check(array[:200], "shm shares")
check(array, "shm in place")
print("right", flush=True)
""")  # fmt: skip


def test_arrays_outlive_everything_at_exit(job: Job) -> None:
    _run(job, """
import atexit, builtins
hvd.init()
builtins.kept = hvd.empty(100_000)
builtins.kept[:] = 1
circle = [hvd.empty(100_000)]
circle.append(circle)
class AtTheEnd:
    def __init__(self): self.array = hvd.empty(100_000)
    def __del__(self): self.array[:] = 2
builtins.at_the_end = AtTheEnd()
atexit.register(lambda: print("right" if builtins.kept.sum() == 100_000 else "wrong", flush=True))
""")  # fmt: skip


def test_arrays_of_a_failed_job_stay(job: Job) -> None:
    _run(job, """
hvd.init()
array = hvd.empty(100_000)
passes = 0
try:
    while True:
        if passes == 20 and hvd.rank() == 0: engine.abort("a test")
        hvd.allreduce_(array, op=hvd.Max)
        passes += 1
except hvd.HorovodInternalError: pass
assert passes >= 19
array[:] = 5
hvd.shutdown()
assert (array == 5).all()
print("right", flush=True)
""")  # fmt: skip
