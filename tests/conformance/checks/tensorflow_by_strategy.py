"""hvd.DistributedOptimizer(strategy=...) of TensorFlow: an optimizer of TensorFlow 1, and one of
Keras."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

import hvdlite.tensorflow as hvd
from checks import check
from checks.here import Here, raises


def descent() -> Any:
    return tf.compat.v1.train.GradientDescentOptimizer(1.0)


@check(min_ranks=2)
def an_optimizer_of_tensorflow_1_compresses_as_the_strategy_says(here: Here) -> None:
    strategy = hvd.Strategy(compression="int8")
    optimizer = hvd.DistributedOptimizer(descent(), strategy=strategy)
    assert str(optimizer._hvd.options.compression) == "int8(error_feedback=True)"
    weight = tf.Variable(tf.zeros((12, 9)))
    given = np.linspace(-1, 1, 108, dtype=np.float32).reshape(12, 9) * (here.rank + 1)
    pairs = optimizer.compute_gradients(lambda: tf.reduce_sum(weight * given), [weight])
    optimizer.apply_gradients(pairs)
    mean = given / (here.rank + 1) * np.mean([rank + 1 for rank in here.ranks])
    np.testing.assert_allclose(-weight.numpy(), mean, atol=0.02)
    assert not np.array_equal(-weight.numpy(), mean)  # 8 bits are not exact


@check()
def what_it_does_not_have_is_refused(here: Here) -> None:
    def refused(words: str, **parts: Any) -> None:
        with raises(ValueError, words):
            hvd.DistributedOptimizer(descent(), strategy=hvd.Strategy(**parts))

    refused("an optimizer of TensorFlow 1: take an optimizer of Keras", local={"every": 2})
    refused("an optimizer of TensorFlow 1: take an optimizer of Keras", large_batch="lars")
    refused("no hold on the layers", sufficient_factors="auto")
    refused("compression.warmup_epochs", compression={"name": "dgc", "warmup_epochs": 2})


@check(seconds=30)
def an_optimizer_of_keras_takes_a_strategy_here_as_well(here: Here) -> None:
    strategy = hvd.Strategy(compression="int8", backward_passes_per_step=2)
    from hvdlite.tensorflow import keras

    for distribute in (hvd.DistributedOptimizer, keras.DistributedOptimizer):
        optimizer = distribute(tf.keras.optimizers.SGD(0.1), strategy=strategy)
        assert str(optimizer.compression) == "int8(error_feedback=True)"
        assert optimizer._hvd.passes == 2
