"""hvdlite.tensorflow: slices, graphs, and what TensorFlow says of errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

import hvdlite as core
import hvdlite.tensorflow as hvd
from checks import check
from checks.barrier import waits_for_the_last
from checks.here import AVERAGE, SUM, Here, raises
from checks.tensorflow_api import DYNAMIC_MODES, MODES, array, run

SETTLED = (
    tf.errors.FailedPreconditionError,
    tf.errors.InvalidArgumentError,
    tf.errors.UnknownError,
)


@check(mode=DYNAMIC_MODES)
def shapes_are_known_before_anything_runs_as_far_as_they_can_be(here: Here, mode: str) -> None:
    def shapes(x: Any) -> list[list[Any]]:
        results = [
            hvd.allreduce(x),
            hvd.broadcast(x, 0),
            hvd.allgather(x),
            hvd.reducescatter(x),
            hvd.alltoall(x),
        ]
        return [result.shape.as_list() for result in results]

    if mode == "eager":
        assert shapes(tf.ones([here.size, 3]))[0] == [here.size, 3]
        return
    seen: list[Any] = []
    signature = [tf.TensorSpec([None, 3], tf.float32)]
    tf.function(lambda x: seen.append(shapes(x)), input_signature=signature).get_concrete_function()
    assert seen == [[[None, 3]] * 5], seen


@check(mode=MODES)
def results_are_memory_that_kernels_can_work_with(here: Here, mode: str) -> None:
    # TensorFlow ends the process over a tensor that is not aligned.
    def work(x: Any) -> Any:
        total = tf.zeros([])
        for size in (1, 3, 17, 1001):
            y = hvd.allreduce(x[1 : size + 1], op=SUM, name=f"a{size}")
            z = hvd.allgather(x[1 : size + 1], name=f"b{size}")
            total += tf.reduce_sum(y * 2 + y) + tf.reduce_sum(z * z)
        return total

    assert run(mode, work, tf.ones([1002])) == (1 + 3 + 17 + 1001) * here.size * 4


@check(mode=MODES, tags=("essential",))
def slices_are_gathered(here: Here, mode: str) -> None:
    def reduce(values: Any, indices: Any) -> Any:
        slices = tf.IndexedSlices(values, indices, tf.constant([here.size + 1, 2]))
        both = [hvd.allreduce(slices, op=SUM, name="sum"), hvd.allreduce(slices, name="average")]
        assert all(isinstance(result, tf.IndexedSlices) for result in both)
        return [tf.convert_to_tensor(result) for result in both]

    total, mean = run(mode, reduce, tf.ones([2, 2]), tf.constant([here.rank, here.rank + 1]))
    want = np.full((here.size + 1, 2), 2.0)
    want[0] = want[-1] = 1
    assert np.array_equal(array(total), want) and np.allclose(array(mean), want / here.size)
    slices = tf.IndexedSlices(tf.ones([1, 2]), tf.constant([0]))
    for wrong in ({"op": hvd.Max}, {"prescale_factor": 0.5}, {"op": hvd.Adasum}):
        with raises(NotImplementedError, "sparse_as_dense"):
            hvd.allreduce(slices, **wrong)


@check(mode=MODES)
def a_gradient_passes_through_compression_and_variables(here: Here, mode: str) -> None:
    variable = tf.Variable([1.0, 2.0])

    def gradient() -> Any:
        with tf.GradientTape() as tape:
            y = hvd.allreduce(variable, op=SUM, compression=hvd.Compression.fp16)
        return tape.gradient(y, variable)

    got = run(mode, gradient)
    assert got.dtype == tf.float32 and array(got).tolist() == [here.size] * 2


# ---- Graphs


@check(min_ranks=2)
def a_graph_traced_more_often_on_one_rank_still_meets_the_others(here: Here) -> None:
    function = tf.function(lambda x: hvd.allreduce(tf.reduce_sum(x), op=SUM))
    for number in range(3):
        # Rank 0's batches have another length each time, so that it traces anew.
        x = tf.ones([number + 1 if here.rank == 0 else 1])
        assert function(x) == number + here.size


@check()
def what_a_program_asks_for_happens_though_its_input_is_constant_or_its_result_unused(
    here: Here,
) -> None:
    def happened() -> int:
        return sum(
            operation["name"].endswith("constantly") for operation in core.recent_operations()
        )

    @tf.function
    def step() -> Any:
        hvd.allreduce(tf.constant(1.0), name="unused constantly")
        return hvd.broadcast(tf.constant([2.0]), 0, name="used constantly")

    before = happened()
    for _ in range(3):
        step()
    assert happened() - before == 6


@check()
def equal_operations_and_control_flow_in_one_graph_do_not_mix(here: Here) -> None:
    @tf.function
    def step(x: Any) -> Any:
        total = hvd.allreduce(x, op=SUM) + hvd.allreduce(x, op=SUM)
        for _ in tf.range(3):
            total = hvd.allreduce(total, op=AVERAGE, name="in the loop")
        if tf.reduce_sum(total) > 0:
            total = hvd.allreduce(total, op=AVERAGE)
        return total

    assert array(step(tf.ones([2]))).tolist() == [2 * here.size] * 2


@check(min_ranks=2)
def name_scopes_are_part_of_names_unless_they_are_ignored(here: Here) -> None:
    @tf.function
    def step(x: Any) -> Any:
        with tf.name_scope(f"rank{here.rank}"):
            return hvd.allreduce(x, name="x", op=SUM, ignore_name_scope=True)

    assert step(tf.ones([])) == here.size


# ---- Errors


@check(mode=MODES, min_ranks=2)
def what_ranks_disagree_about_is_a_failed_precondition_and_harms_nobody(
    here: Here, mode: str
) -> None:
    with raises(tf.errors.FailedPreconditionError, "sent shape [3]", "rank 1 sent shape [4]"):
        run(mode, lambda x: hvd.allreduce(x, name="wrong"), tf.ones([3 + (here.rank == 1)]))
    with raises(tf.errors.FailedPreconditionError):
        run(
            mode,
            lambda x: hvd.grouped_allreduce([x, x], name="group"),
            tf.ones([3 + (here.rank == 1)]),
        )
    assert run(mode, lambda x: hvd.allreduce(x, name="right", op=SUM), tf.ones([])) == here.size


@check(min_ranks=2)
def errors_are_hvdlites_own_as_well(here: Here) -> None:
    with raises(core.MismatchError) as caught:
        hvd.allreduce(tf.ones([3 + (here.rank == 1)]), name="wrong")
    assert isinstance(caught[0], SETTLED[0]) and not caught[0].retryable  # type: ignore[attr-defined]
    import pickle

    again = pickle.loads(pickle.dumps(caught[0]))
    assert type(again) is type(caught[0]) and str(again) == str(caught[0])
    with raises(ValueError, "root_rank 99"):
        hvd.broadcast(tf.ones([3]), 99)


@check(min_ranks=2)
def a_barrier_waits_outside_of_functions_only(here: Here) -> None:
    waits_for_the_last(here, hvd.barrier)
    with raises(ValueError, "barrier", "outside tf.function"):
        tf.function(hvd.barrier)()
