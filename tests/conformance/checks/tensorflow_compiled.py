"""hvdlite.tensorflow inside tf.function(jit_compile=True): what is different where XLA compiles."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest import mock

import numpy as np
import tensorflow as tf

import hvdlite as core
import hvdlite.tensorflow as hvd
from checks import check
from checks.here import AVERAGE, SUM, Here, raises
from checks.programs import calls_of
from checks.tensorflow_api import API, array, made, run, tensor
from hvdlite.tensorflow import xla


def _compiled(function: Callable[..., Any]) -> Any:
    return made("compiled", function)


def _names(count: int) -> list[str]:
    """Of the last allreduces, in their order."""
    names = [operation["name"] for operation in core.recent_operations()]
    return [name.rpartition("/")[2].removeprefix("allreduce.") for name in names][-count:]


@check(seconds=30)
def conditions_loops_and_functions_keep_the_order(here: Here) -> None:
    @tf.function
    def inner(x: Any, name: Any) -> Any:
        return hvd.allreduce(x, op=AVERAGE, name=name)

    @_compiled
    def step(x: Any) -> Any:
        total = hvd.allreduce(x, op=AVERAGE, name="first")
        inner(x * 2, "in a function")  # nothing below needs its result
        tf.cond(
            tf.reduce_sum(x) > 0, lambda: hvd.allreduce(x * 3, name="in a condition"), lambda: x
        )
        for _ in tf.range(2):
            total += hvd.allreduce(x, op=AVERAGE, name="in a loop")
        return total + hvd.allreduce(x * 4, op=AVERAGE, name="last")

    x = tf.ones([3])
    for _ in range(3):
        assert array(step(x)).tolist() == [7] * 3
        order = _names(6)
        assert order == [
            "first",
            "in a function",
            "in a condition",
            "in a loop",
            "in a loop",
            "last",
        ], order
    # The function was traced for XLA; for other callers it is traced anew, with kernels.
    assert array(inner(x, "outside")).tolist() == [1] * 3
    assert array(tf.function(inner)(x, "outside")).tolist() == [1] * 3


@check(seconds=30)
def gradients_travel_in_one_call(here: Here) -> None:
    weights = [tf.Variable(tf.ones([n, 2])) for n in (3, 5, 7)]

    def step(*x: Any) -> Any:
        with tf.GradientTape() as tape:
            y = sum(tf.reduce_sum(each @ w) for each, w in zip(x, weights, strict=True))
        return hvd.DistributedGradientTape(tape, op=SUM).gradient(y, weights)

    compiled = _compiled(step)
    given = [tf.fill([4, n], here.rank + 1.0) for n in (3, 5, 7)]
    assert calls_of(API.program(step, *given))[0] == 1
    for gradient, x in zip(compiled(*given), given, strict=True):
        assert (
            array(gradient).tolist()
            == np.full((x.shape[1], 2), 4.0 * sum(r + 1 for r in here.ranks)).tolist()
        )


@check(seconds=30)
def tensors_come_row_by_row_whatever_their_neighbours_would_like(here: Here) -> None:
    """XLA is free to hand a transposed matrix over as the plain one, column by column."""
    a, b = here.everyones("float64", (40, 7), "a"), here.everyones("float64", (40, 5), "b")

    def product(x: Any, y: Any) -> Any:
        return tf.transpose(
            hvd.allreduce(tf.matmul(x, y, transpose_a=True), op=SUM)
        ), hvd.allgather(tf.transpose(x))

    summed, gathered = run("compiled", product, tensor(a[here.rank]), tensor(b[here.rank]))
    np.testing.assert_allclose(
        array(summed), sum(x.T @ y for x, y in zip(a, b, strict=True)).T, rtol=1e-9
    )
    here.close(array(gathered), np.concatenate([x.T for x in a]))


# ---- What cannot be


@check(seconds=30)
def what_xla_cannot_have_is_refused_when_it_is_traced(here: Here) -> None:
    def refused(
        kind: type[Exception], words: str, function: Callable[..., Any], *args: Any
    ) -> None:
        with raises(kind, words, "jit_compile"):
            run("compiled", function, *args)

    refused(NotImplementedError, "hvd.join()", lambda x: hvd.join(), tf.ones([]))
    uneven = [here.size + 1, *[1] * (here.size - 1)]
    refused(
        NotImplementedError, "splits", lambda x: hvd.alltoall(x, uneven), tf.ones([2 * here.size])
    )
    if here.size > 1:
        invalid = tf.errors.InvalidArgumentError
        refused(invalid, "divisible", lambda x: hvd.reducescatter(x), tf.ones([here.size + 1]))
        refused(invalid, "divisible", lambda x: hvd.alltoall(x), tf.ones([here.size + 1]))
    unknown = tf.function(
        lambda x: hvd.allreduce(x),
        jit_compile=True,
        input_signature=[tf.TensorSpec([None, 3], tf.float32)],
    )
    with raises(tf.errors.InvalidArgumentError, "shape", "(None, 3)", "ensure_shape"):
        unknown(tf.ones([2, 3]))


@check(min_ranks=2)
def a_process_set_that_is_another_one_by_now_is_noticed(here: Here) -> None:
    step = _compiled(lambda x: hvd.allreduce(x, op=SUM, process_set=everybody))
    everybody = hvd.add_process_set(list(here.ranks)[:-1])
    if here.rank < here.size - 1:
        assert step(tf.ones([])) == here.size - 1
    hvd.remove_process_set(everybody)
    if here.rank < here.size - 1:
        with raises(tf.errors.InvalidArgumentError, "process set", "Compile it anew"):
            step(tf.ones([]))


@check()
def where_xla_cannot_be_used_a_sentence_says_so(here: Here) -> None:
    step = lambda x: hvd.allreduce(x)  # noqa: E731
    with (
        mock.patch.object(
            xla, "problem", lambda: "the XLA of this version does not offer custom calls"
        ),
        raises(
            NotImplementedError, "does not offer custom calls", tf.__version__, "jit_compile=False"
        ),
    ):
        tf.function(step, jit_compile=True)(tf.ones([2]))
    if not xla.problem():
        with (
            tf.Graph().as_default(),
            raises(NotImplementedError, "a graph of TensorFlow 1", "jit_compile=False"),
        ):
            tf.function(step, jit_compile=True)(tf.ones([2]))
    with (
        mock.patch.object(
            xla, "problem", lambda on_gpus=False: "its XLA refuses" if on_gpus else ""
        ),
        mock.patch.object(tf.config, "list_logical_devices", lambda kind: [kind]),
        raises(NotImplementedError, "on a GPU", "its XLA refuses", "jit_compile=False"),
    ):
        tf.function(step, jit_compile=True)(tf.ones([2]))


@check()
def a_call_compiled_where_there_are_gpus_runs_on_the_cpu_too(here: Here) -> None:
    """It names both platforms, and TensorFlow takes the one on which the function runs."""
    if xla.problem(on_gpus=True):
        return
    with mock.patch.object(tf.config, "list_logical_devices", lambda kind: [kind]):
        step = _compiled(lambda x: hvd.grouped_allreduce([x, 2 * x], op=SUM))
        total, twice = step(tf.ones([3]))
    assert array(total).tolist() == [here.size] * 3
    assert array(twice).tolist() == [2 * here.size] * 3
