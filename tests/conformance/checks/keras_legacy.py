"""tf_keras: optimizers of the older generation (tf_keras.optimizers.legacy), and what Horovod's
programs know of an optimizer."""

from __future__ import annotations

from typing import Any

import numpy as np

from checks import check
from checks.here import Here, raises
from checks.keras_here import (
    all_skip_an_overflow,
    alone,
    equal_everywhere,
    fit,
    hvd,
    keras,
    model,
    momentum_follows_the_rate,
    own,
    passes_add_up,
    same,
    together,
)


def make(kind: str) -> Any:
    optimizers = keras.optimizers.legacy
    if kind == "momentum":
        return optimizers.SGD(0.1, momentum=0.9, nesterov=True)
    return optimizers.Adam(0.01) if kind == "Adam" else optimizers.SGD(0.1)


@check(optimizer=("SGD", "momentum", "Adam"), seconds=30)
def with_each_optimizer_of_the_older_generation(here: Here, optimizer: str) -> None:
    distributed = hvd.callbacks.BroadcastGlobalVariablesCallback(0)
    got = together(here, make(optimizer), callbacks=[distributed])
    same(here, got, alone(here, make(optimizer)), 1e-4 if optimizer == "Adam" else 2e-6)


@check(average=(False, True), seconds=30)
def gradients_of_several_passes_add_up_in_the_older_generation(here: Here, average: bool) -> None:
    passes_add_up(here, keras.optimizers.legacy.SGD, average)


@check(seconds=30)
def momentum_follows_the_rate_in_the_older_generation(here: Here) -> None:
    def velocities(optimizer: Any, variables: Any) -> Any:
        return [optimizer.get_slot(variable, "momentum") for variable in variables]

    momentum_follows_the_rate(here, keras.optimizers.legacy.SGD, velocities)


@check(generation=("new", "old"), seconds=30)
def an_overflow_on_one_rank_makes_all_skip_the_step(here: Here, generation: str) -> None:
    keras.mixed_precision.set_global_policy("mixed_float16")
    try:
        optimizers = keras.optimizers if generation == "new" else keras.optimizers.legacy
        net = model()
        x, y = own(here)
        inner = optimizers.SGD(0.1, momentum=0.9)
        optimizer = hvd.DistributedOptimizer(keras.mixed_precision.LossScaleOptimizer(inner))
        fit(net, optimizer, x, y)
        all_skip_an_overflow(here, net, x, y)
    finally:
        keras.mixed_precision.set_global_policy("float32")


@check(generation=("new", "old"), seconds=30)
def the_methods_of_horovods_optimizer(here: Here, generation: str) -> None:
    import tensorflow as tf

    optimizers = keras.optimizers if generation == "new" else keras.optimizers.legacy
    optimizer = hvd.DistributedOptimizer(optimizers.SGD(1.0))
    assert optimizer._HAS_AGGREGATE_GRAD is True
    config = optimizer.get_config()
    assert type(optimizer).from_config(dict(config)).get_config() == config
    variable = tf.Variable([1.0, 2.0])
    for compute in (optimizer._compute_gradients, optimizer.compute_gradients):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(variable) * (here.rank + 1.0)
        pairs = compute(loss, [variable], tape=tape)
        mean = (here.size + 1) / 2
        np.testing.assert_allclose(pairs[0][0], [mean, mean])
        before = variable.numpy()
        optimizer.apply_gradients(pairs)  # which does not reduce again
        np.testing.assert_allclose(variable, before - mean)
    np.testing.assert_allclose(
        optimizer._allreduce([tf.constant(float(here.rank))], [variable])[0], (here.size - 1) / 2
    )
    optimizer.apply_gradients([(tf.fill([2], float(here.rank)), variable)])
    equal_everywhere(here, [variable.numpy()])
    local = tf.Variable(0.0)
    optimizer = hvd.DistributedOptimizer(optimizers.SGD(1.0))
    optimizer.register_local_var(local)
    optimizer.apply_gradients([(tf.constant(here.rank + 1.0), local)])
    assert float(local) == -(here.rank + 1.0) / here.size


@check(generation=("new", "old"), seconds=30)
def sparse_gradients_of_several_passes_must_become_dense(here: Here, generation: str) -> None:
    import tensorflow as tf

    optimizers = keras.optimizers if generation == "new" else keras.optimizers.legacy
    table = tf.Variable(tf.zeros((4, 2)))

    def gradient() -> Any:
        return tf.IndexedSlices(
            tf.ones((1, 2)), tf.constant([here.rank]), dense_shape=tf.constant([4, 2])
        )

    optimizer = hvd.DistributedOptimizer(optimizers.SGD(1.0), backward_passes_per_step=2)
    with raises(ValueError, "sparse_as_dense=True"):
        optimizer.apply_gradients([(gradient(), table)])
    optimizer = hvd.DistributedOptimizer(
        optimizers.SGD(1.0), backward_passes_per_step=2, sparse_as_dense=True
    )
    for _ in range(2):
        optimizer.apply_gradients([(gradient(), table)])
    expected = np.zeros((4, 2), "float32")
    expected[: here.size] = -2 / here.size
    np.testing.assert_allclose(table, expected)


@check(generation=("new", "old"), seconds=30)
def computed_gradients_are_reduced_in_every_step_whatever_is_done_with_them(
    here: Here, generation: str
) -> None:
    import tensorflow as tf

    new = generation == "new"
    optimizers = keras.optimizers if new else keras.optimizers.legacy
    as_they_are = (
        {"skip_gradients_aggregation": True} if new else {"experimental_aggregate_gradients": False}
    )
    optimizer = hvd.DistributedOptimizer(optimizers.SGD(1.0))
    variable = tf.Variable(0.0)
    mean = (here.size + 1) / 2

    def computed() -> Any:
        with tf.GradientTape() as tape:
            loss = variable * (here.rank + 1.0)
        pairs = optimizer.compute_gradients(loss, [variable], tape=tape)
        np.testing.assert_allclose(pairs[0][0], mean)
        return pairs

    for options in (as_they_are, as_they_are, {}, as_they_are):
        before = float(variable)
        optimizer.apply_gradients(computed(), **options)
        np.testing.assert_allclose(variable, before - mean)
    computed()  # of a step that is not taken
    optimizer.apply_gradients(computed(), **as_they_are)
    before = float(variable)
    optimizer.apply_gradients([(tf.constant(here.rank + 1.0), variable)])
    np.testing.assert_allclose(variable, before - mean)
