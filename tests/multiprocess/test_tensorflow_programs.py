"""hvdlite.tensorflow in whole programs: a thousand operations at once, Ctrl-C inside a graph, a
rank that dies, no job."""

from __future__ import annotations

import shutil
import signal
import sys
from pathlib import Path

import pytest
from bare_ranks import PROMPT, Ranks
from installed import needs_installed
from launched import Job, ended
from machine import within
from tier import one_of

import hvdlite

pytestmark = pytest.mark.costly

needs_installed("tensorflow")

_QUIET = {"TF_CPP_MIN_LOG_LEVEL": "2", "TF_NUM_INTRAOP_THREADS": "1"}

# With two threads for nodes, and ranks that start from opposite ends: if an operation kept a thread
# until it is done, two of them would be enough for a deadlock.
_A_THOUSAND = """
import tensorflow as tf, hvdlite.tensorflow as hvd
from hvdlite.base.operations import ALLREDUCE
from hvdlite.core.operations import Call
from hvdlite.tensorflow.graph import GRAPH
tf.config.threading.set_inter_op_parallelism_threads(2)
tf.config.threading.set_intra_op_parallelism_threads(1)
hvd.init()
count = 1000

@tf.function
def step(x):
    results = {}
    before = []
    for i in range(count) if hvd.rank() == 0 else reversed(range(count)):
        # Each is submitted after the one before it; none waits for its result.
        with tf.control_dependencies(before):
            y = x + float(i)
        before = [y]
        results[i] = GRAPH.gradients(Call(ALLREDUCE, op=hvd.Sum), [y], [f"x{i}"])[0]
    return tf.stack([results[i] for i in range(count)])

for _ in range(3):
    total = step(tf.fill([5], float(hvd.rank())))
assert total[:, 0].numpy().tolist() == [2.0 * i + 1 for i in range(count)]
print("all there", flush=True)
"""


@pytest.mark.watchdog(180)
def test_a_thousand_operations_in_opposite_orders_on_two_threads_do_not_deadlock(job: Job) -> None:
    done = job.end_well("-np", "2", "python", job.script(_A_THOUSAND), **_QUIET)
    assert done.stdout.decode().count("all there") == 2


_WAITING = """
end_after(110)
import tensorflow as tf, hvdlite.tensorflow as tf_hvd
hvd.init()
step = tf.function(lambda x: tf_hvd.allreduce(x, name="together"), jit_compile=JIT)
step(tf.ones([3]))
try:
    flag(f"ready.{RANK}")  # from here on somebody may press Ctrl-C
    if RANK == 1:
        signal.pause()
    step(tf.ones([3]))
except BaseException as error:
    tell(error=type(error).__name__, text=str(error))
"""


# How a step is run.
_JIT = pytest.mark.parametrize("jit", [False, True], ids=["graph", "compiled"])


@_JIT
@pytest.mark.watchdog(120)
def test_ctrl_c_inside_a_graph_ends_the_step_at_once(two_ranks: Ranks, jit: bool) -> None:
    two_ranks.start(f"JIT = {jit}\n{_WAITING}", **_QUIET)
    two_ranks.wait_for_flags("ready.0", "ready.1", seconds=100)
    two_ranks.wait_until_still(0)
    at = two_ranks.kill(0, signal.SIGINT)
    two_ranks.processes[0].wait(within(15))
    told = two_ranks.last(0)
    assert told["at"] - at < within(PROMPT), told
    # TensorFlow reports its error with Python's inside.
    assert "KeyboardInterrupt" in told["error"] + told["text"], told
    two_ranks.kill(1)


@_JIT
@pytest.mark.watchdog(120)
def test_a_rank_that_dies_ends_the_others_graphs_and_is_named(two_ranks: Ranks, jit: bool) -> None:
    two_ranks.start(f"JIT = {jit}\n{_WAITING}", **_QUIET)
    two_ranks.wait_for_flags("ready.0", "ready.1", seconds=100)
    two_ranks.kill(1)
    two_ranks.processes[0].wait(within(30))
    told = two_ranks.last(0)
    assert told["error"] == "UnknownError", told
    assert "hvdlite.PeerLostError (rank 1): " in told["text"], told


_NO_GRADIENT = """
import tensorflow as tf, hvdlite.tensorflow as hvd
hvd.init()
a, b = tf.Variable([1.0]), tf.Variable([2.0])

def step(all_are_used):
    with tf.GradientTape() as tape:
        y = a * a
        if all_are_used:
            y += b * b
    return hvd.DistributedGradientTape(tape).gradient(y, [a, b])

if GRAPH:
    step = tf.function(step)
assert step(True)[1] == 4.0 and step(False)[1] is None
print("alike", flush=True)
step(hvd.rank() == 1)
"""


@pytest.mark.watchdog(100)
@pytest.mark.parametrize("graph", one_of([True, False], "graphs that lack a gradient on one rank"))
def test_a_gradient_that_one_rank_lacks_ends_the_job_and_is_named(job: Job, graph: bool) -> None:
    script = job.script(f"GRAPH = {graph}\n{_NO_GRADIENT}")
    out, err = ended(job.start("-np", "2", "python", script, **_QUIET), code=1)
    assert out.decode().count("alike") == 2
    last = err.decode().splitlines()[-1]
    assert "variables without a gradient (numbers behind the 0)" in last, last
    assert "rank 0 sent shape [0, 1], rank 1 sent shape [0]." in last, last


_LACKING = """
import tensorflow as tf, hvdlite.tensorflow as hvd
hvd.init()
total = tf.function(lambda x: hvd.allreduce(x, op=hvd.Sum))(tf.fill([3], hvd.rank() + 1.0))
assert total.numpy().tolist() == [3.0] * 3, total
try:
    tf.function(lambda x: hvd.allreduce(x), jit_compile=True)(tf.ones([3]))
except NotImplementedError as error:
    assert "does not offer custom calls" in str(error), error
    print("refused", flush=True)
"""


@pytest.mark.watchdog(120)
def test_where_tensorflow_lacks_a_function_a_warning_says_which_and_graphs_go_by_way_of_python(
    job: Job, tmp_path: Path
) -> None:
    copy = tmp_path / "elsewhere" / "hvdlite"
    shutil.copytree(
        Path(hvdlite.__file__).parent, copy, ignore=shutil.ignore_patterns("__pycache__")
    )
    # What TensorFlow is asked for becomes something that it does not have.
    for library, name in (
        ("libhvdlite_tensorflow.so", b"TF_NewAsyncKernelBuilder\0"),
        ("libhvdlite_xla.so", b"_ZN3xla3ffi12GetXlaFfiApiEv\0"),
    ):
        binary = (copy / library).read_bytes()
        assert binary.count(name) == 1
        (copy / library).write_bytes(binary.replace(name, name[:-2] + b"Q\0"))
    done = job.end_well(
        "-np", "2", "python", job.script(_LACKING), PYTHONPATH=str(copy.parent), **_QUIET
    )
    told = done.stderr.decode()
    assert (
        "does not export TF_NewAsyncKernelBuildeQ" in told and "by way of Python instead" in told
    ), told
    assert done.stdout.decode().count("refused") == 2


_ALONE = """
import hvdlite.tensorflow as hvd
import tensorflow as tf
hvd.init()
print(tf.function(hvd.allreduce)(tf.ones(2)).numpy().tolist(),
      hvd.allgather(tf.ones([1, 2])).numpy().tolist())
"""


def test_without_a_launcher_tensorflow_is_a_job_of_one(job: Job) -> None:
    done = job.command(sys.executable, job.script(_ALONE), **_QUIET)
    assert done.stdout.strip() == "[1.0, 1.0] [[1.0, 1.0]]", done.stderr
