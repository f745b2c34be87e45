"""What is trained inside graphs: 161 small gradients without arithmetic, in TensorFlow and in JAX,
and models of Keras.

Each maker returns a step for a way: "hvdlite", or "none" where each rank trains for itself. Fixed
seeds, so that all begin alike.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

COUNT, LENGTH = 161, 64  # as many gradients as a ResNet-50 has, of 64 numbers each


def tensorflow_gradients(way: str) -> Callable[[], Any]:
    """Each variable's gradient is the variable by a factor: one kernel. Without hvdlite it goes
    through TensorFlow's identity."""
    import tensorflow as tf

    import hvdlite.tensorflow as hvd

    variables = [tf.Variable(tf.fill([LENGTH], float(i))) for i in range(COUNT)]
    factor = tf.constant(1e-3)

    @tf.function  # type: ignore[untyped-decorator]
    def step(factor: Any) -> None:
        with tf.GradientTape() as tape:
            loss = factor * tf.add_n([tf.nn.l2_loss(variable) for variable in variables])
        if way == "hvdlite":
            gradients = hvd.DistributedGradientTape(tape).gradient(loss, variables)
        else:
            gradients = [tf.identity(gradient) for gradient in tape.gradient(loss, variables)]
        for variable, gradient in zip(variables, gradients, strict=True):
            variable.assign_sub(gradient)

    return lambda: step(factor)


def jax_gradients(way: str) -> Callable[[], Any]:
    """The same in one compiled program."""
    import jax
    import jax.numpy as jnp

    import hvdlite.jax as hvd

    @jax.jit
    def step(parameters: list[Any], factor: float) -> list[Any]:
        gradients = jax.grad(lambda ps: factor * sum(jnp.vdot(p, p) / 2 for p in ps))(parameters)
        if way == "hvdlite":
            gradients = hvd.allreduce(gradients)
        return [
            parameter - gradient for parameter, gradient in zip(parameters, gradients, strict=True)
        ]

    parameters = [jnp.full(LENGTH, float(i)) for i in range(COUNT)]

    def run() -> None:
        parameters[:] = step(parameters, 1e-3)
        jax.block_until_ready(parameters)

    return run


GRADIENTS = {"tensorflow": tensorflow_gradients, "jax": jax_gradients}


def _mlp() -> tuple[list[Any], tuple[int, ...], int]:
    from keras import layers

    return (
        [*[layers.Dense(1024, activation="relu") for _ in range(3)], layers.Dense(10)],
        (1024,),
        256,
    )


def _conv() -> tuple[list[Any], tuple[int, ...], int]:
    from keras import layers

    found: list[Any] = []
    for filters, stride in ((32, 1), (64, 2), (128, 2), (256, 2), (256, 1)):
        found += [
            layers.Conv2D(filters, 3, stride, "same"),
            layers.BatchNormalization(),
            layers.ReLU(),
        ]
    return [*found, layers.GlobalAveragePooling2D(), layers.Dense(10)], (32, 32, 3), 32


_MODELS = {"mlp": _mlp, "conv": _conv}


class Fit:
    """model.fit(), timed from the beginning of the epoch to its end."""

    def __init__(self, name: str, way: str) -> None:
        import keras

        import hvdlite.keras as hvd

        keras.utils.set_random_seed(0)
        layers, self._shape, self._batch = _MODELS[name]()
        self._model = keras.Sequential([keras.Input(self._shape), *layers])
        optimizer = keras.optimizers.SGD(1e-3)
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        self._model.compile(
            hvd.DistributedOptimizer(optimizer) if way == "hvdlite" else optimizer, loss
        )
        self._data: dict[int, Any] = {}

    def seconds(self, steps: int) -> float:
        """Of one step, in the mean of so many."""
        import time

        import keras

        if steps not in self._data:
            random = np.random.default_rng(0)
            count = self._batch * steps
            inputs = random.standard_normal((count, *self._shape), np.float32)
            self._data[steps] = inputs, random.integers(0, 10, count)
        moments: list[float] = []

        def now(*_: Any) -> None:
            moments.append(time.perf_counter())

        clock = keras.callbacks.LambdaCallback(on_epoch_begin=now, on_epoch_end=now)
        x, y = self._data[steps]
        self._model.fit(x, y, batch_size=self._batch, shuffle=False, verbose=0, callbacks=[clock])
        return (moments[1] - moments[0]) / steps
