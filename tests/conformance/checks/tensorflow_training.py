"""hvdlite.tensorflow: tapes, optimizers of TensorFlow 1, aggregation, broadcasts: training is that
of one process."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

import hvdlite.tensorflow as hvd
from checks import check
from checks.here import Here, raises
from checks.tensorflow_api import API, DYNAMIC_MODES, MODES, array, made, run

WIDTHS = (4, 6, 3)


def _weights() -> list[Any]:
    rng = np.random.default_rng(7)
    shapes = [(a, b) for a, b in zip(WIDTHS, WIDTHS[1:], strict=False)]
    return [tf.Variable(rng.standard_normal(shape)) for shape in (*shapes, (10, WIDTHS[0]))]


def _loss(weights: list[Any], words: Any, wanted: Any) -> Any:
    x = tf.nn.embedding_lookup(weights[-1], words)  # whose gradient is slices
    for weight in weights[:-1]:
        x = tf.tanh(x @ weight)
    return tf.reduce_mean(tf.square(x - wanted))


def _data(here: Here) -> tuple[Any, Any, slice]:
    rng = np.random.default_rng(3)
    words, wanted = (
        rng.integers(0, 10, 4 * here.size),
        rng.standard_normal((4 * here.size, WIDTHS[-1])),
    )
    return tf.constant(words), tf.constant(wanted), slice(4 * here.rank, 4 * here.rank + 4)


TAPES: dict[str, dict[str, Any]] = {
    "plain": {},
    "predivided": {"gradient_predivide_factor": 2.0, "sparse_as_dense": True},
    "sum": {"op": hvd.Sum},
    "two groups": {"groups": 2},
    "dense": {"sparse_as_dense": True},
    "compressed": {"compression": hvd.Compression.bf16},
}


@check(how=tuple(TAPES), tags=("essential",))
def a_tape_trains_like_one_process_on_all_the_data(here: Here, how: str) -> None:
    words, wanted, mine = _data(here)
    weights, alone = _weights(), _weights()
    settings = TAPES[how]
    scale = 1.0 / here.size if how == "sum" else 1.0

    def step(words: Any, wanted: Any) -> None:
        with tf.GradientTape() as tape:
            loss = _loss(weights, words, wanted)
        grads = hvd.DistributedGradientTape(tape, **settings).gradient(loss, weights)
        for weight, gradient in zip(weights, grads, strict=True):
            weight.assign_sub(0.1 * scale * tf.convert_to_tensor(gradient))

    for kind in API.modes:
        run_step = made(kind, step)
        for _ in range(3):
            run_step(words[mine], wanted[mine])
    for _ in range(3 * len(API.modes)):
        with tf.GradientTape() as tape:
            loss = _loss(alone, words, wanted)
        for weight, gradient in zip(alone, tape.gradient(loss, alone), strict=True):
            weight.assign_sub(0.1 * tf.convert_to_tensor(gradient))
    for weight, other in zip(weights, alone, strict=True):
        np.testing.assert_allclose(
            array(weight.value()), array(other.value()), rtol=0.05 if how == "compressed" else 1e-9
        )
        here.saw(np.asarray(weight))
    here.settle()


@check(mode=MODES)
def local_sources_stay_local_and_are_scaled(here: Here, mode: str) -> None:
    mine, everyones, words = (
        tf.Variable([1.0, 1.0]),
        tf.Variable([2.0]),
        tf.Variable([1.0, 1.0, 1.0]),
    )
    layer = type("Layer", (), {"trainable_weights": [mine]})()

    def step(tape: Any) -> Any:
        with tape:
            loss = tf.reduce_sum(mine) * (here.rank + 1.0) + tf.reduce_sum(everyones) * here.rank
        return tape.gradient(loss, {"a": mine, "b": everyones, "c": tf.constant(1.0)})

    def plain() -> Any:
        tape = hvd.DistributedGradientTape(tf.GradientTape())
        tape.register_local_source(mine)
        return step(tape)

    def unscaled() -> Any:
        return step(
            hvd.PartialDistributedGradientTape(
                tf.GradientTape(), local_layers=[layer], scale_local_gradients=False
            )
        )

    def sliced() -> Any:
        tape = hvd.DistributedGradientTape(tf.GradientTape())
        tape.register_local_source(words)
        with tape:
            loss = tf.reduce_sum(tf.gather(words, [0, 2])) * (here.rank + 1.0)
        gradient = tape.gradient(loss, words)
        assert isinstance(gradient, tf.IndexedSlices)
        return tf.convert_to_tensor(gradient)

    share = (here.rank + 1) / here.size
    assert np.allclose(array(run(mode, sliced)), [share, 0, share])
    grads = run(mode, plain)
    assert np.allclose(array(grads["a"]), (here.rank + 1) / here.size) and grads["c"] is None
    assert np.allclose(array(grads["b"]), (here.size - 1) / 2)
    assert np.allclose(array(run(mode, unscaled)["a"]), here.rank + 1)
    with raises(ValueError, "Layer"):
        hvd.PartialDistributedGradientTape(tf.GradientTape(), local_layers=[3])


@check()
def wrong_settings_are_refused(here: Here) -> None:
    tape, variable = tf.GradientTape(), tf.Variable(1.0)
    with raises(ValueError, "gradient_predivide_factor"):
        hvd.DistributedGradientTape(tape, op=hvd.Sum, gradient_predivide_factor=2.0)
    for wrong in (-1, [variable], [[variable], [variable]], [[3]], "two"):
        with raises(ValueError, "groups"):
            hvd.DistributedGradientTape(tape, groups=wrong)
    others = hvd.add_process_set([0])
    with raises(NotImplementedError, "Adasum"):
        hvd.DistributedGradientTape(tape, op=hvd.Adasum, process_set=others)
    # Who is not a member keeps its own gradients.
    wrapped = hvd.DistributedGradientTape(tf.GradientTape(), process_set=others)
    with wrapped:
        loss = variable * (here.rank + 1.0)
    assert wrapped.gradient(loss, variable) == here.rank + 1
    hvd.remove_process_set(others)


@check(average=(False, True))
def aggregation_reduces_every_second_pass(here: Here, average: bool) -> None:
    for kind in API.modes:
        helper = hvd.LocalGradientAggregationHelper(
            2,
            lambda grads, _: [
                None if g is None else hvd.allreduce(g, name=f"{i}") for i, g in enumerate(grads)
            ],
            average_aggregated_gradients=average,
        )

        def compute(x: Any, helper: Any = helper) -> Any:
            return helper.compute_gradients([x, None], [None, None])[0]

        for one_pass in (made(kind, compute), made(kind, compute)):
            assert array(one_pass(tf.fill([2], float(here.rank)))).tolist() == [here.rank] * 2
            mean = (here.size - 1) / 2 * (1 if average else 2)
            assert array(one_pass(tf.fill([2], float(here.rank)))).tolist() == [mean] * 2
            assert helper.counter.numpy() == 0
    with raises(ValueError, "sparse_as_dense"):
        hvd.LocalGradientAggregationHelper(2, lambda g, v: g).compute_gradients(
            [tf.IndexedSlices(tf.ones([1]), tf.constant([0]), tf.constant([3]))], [None]
        )


@check()
def a_variable_without_a_gradient_in_some_passes_keeps_its_sum(here: Here) -> None:
    helper = hvd.LocalGradientAggregationHelper(
        2, lambda grads, _: [hvd.allreduce(g, op=hvd.Sum) for g in grads]
    )
    variables = [tf.Variable(tf.zeros(2)), tf.Variable(tf.zeros(2))]
    one = tf.ones(2)
    for first, second in (([one, None], [one, one]), ([one, one], [one, None])):
        helper.compute_gradients(first, variables)
        results = helper.compute_gradients(second, variables)
        assert [array(r).tolist() for r in results] == [
            [2.0 * here.size] * 2,
            [1.0 * here.size] * 2,
        ]


@check(mode=MODES)
def variables_get_the_roots_values(here: Here, mode: str) -> None:
    root = here.size - 1
    variables = [
        tf.Variable(tf.fill([3], float(here.rank))),
        tf.Variable(here.rank),
        tf.Variable([here.rank % 2 == 0]),
    ]
    with tf.device("CPU:0"):
        run(mode, lambda: hvd.broadcast_variables(variables, root_rank=root) and None)
    assert array(variables[0].value()).tolist() == [root] * 3 and variables[1].numpy() == root
    assert variables[2].numpy().tolist() == [root % 2 == 0]
    variables[1].assign(here.rank)
    assert hvd.broadcast_(variables[1:2], 0)[0] is variables[1] and variables[1].numpy() == 0
    assert hvd.broadcast_object_fn(0)(here.rank) == 0
    with raises(RuntimeError, "runs eagerly"):
        hvd.broadcast_global_variables(0)


@check(mode=MODES)
def tensors_say_where_this_process_is(here: Here, mode: str) -> None:
    ops = (
        hvd.rank_op,
        hvd.size_op,
        hvd.local_rank_op,
        hvd.local_size_op,
        hvd.process_set_included_op,
    )
    want = [here.rank, here.size, hvd.local_rank(), hvd.local_size(), 1]
    assert [int(n) for n in run(mode, lambda: [op() for op in ops])] == want


@check(passes=(1, 2))
def sessions_of_tensorflow_1_train(here: Here, passes: int) -> None:
    with tf.Graph().as_default():
        x = tf.compat.v1.get_variable("x", initializer=tf.constant([1.0 + here.rank, 2.0]))
        optimizer = hvd.DistributedOptimizer(
            tf.compat.v1.train.MomentumOptimizer(0.5, 0.0), backward_passes_per_step=passes
        )
        train = optimizer.minimize(tf.reduce_sum(x) * (here.rank + 1.0))
        hooks = [hvd.BroadcastGlobalVariablesHook(0)]
        with tf.compat.v1.train.MonitoredTrainingSession(hooks=hooks) as session:
            for _ in range(2 * passes):
                session.run(train)
            value = session.run(x)
    moved = 0.5 * 2 * passes * (here.size + 1) / 2
    assert np.allclose(value, [1 - moved, 2 - moved]), value


@check(mode=DYNAMIC_MODES)
def join_lets_others_go_on(here: Here, mode: str) -> None:
    @tf.function
    def step(x: Any) -> Any:
        return hvd.allreduce(x, op=hvd.Sum, name="uneven")

    for number in range(here.rank + 1):
        assert step(tf.ones([])) == here.size - number
    last = run(mode, hvd.join)
    assert last.dtype == tf.int32 and int(last) in here.ranks
