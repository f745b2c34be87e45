"""Training by given gradients with hvdlite.tensorflow's tape."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

import hvdlite.tensorflow as hvd
from checks import runs
from checks.runs import SHAPES, Weights, by_weight


class TensorFlowRun(runs.Run):
    """An optimizer is its rate: a tape reduces the gradients, and knows no optimizer."""

    modes = ("eager", "graph")
    mode = "graph"

    def __init__(
        self, inner: float, wrap: str = "DistributedOptimizer", *, mode: str = "",
        widest: bool = False, **options: Any,
    ) -> None:  # fmt: skip
        self._rate, self._options = inner, options
        self.variables = {
            key: tf.Variable(tf.zeros(shape), name=key) for key, shape in SHAPES.items()
        }
        self._step = tf.function(self.step) if (mode or self.mode) == "graph" else self.step

    @staticmethod
    def sgd(rate: float, momentum: float = 0.0, nesterov: bool = False) -> float:
        assert not momentum
        return rate

    def step(self, given: Any) -> None:
        with hvd.DistributedGradientTape(tf.GradientTape(), **self._options) as tape:
            losses = [tf.reduce_sum(self.variables[key] * given[key]) for key in SHAPES]
            loss = tf.add_n(losses)
        gradients = tape.gradient(loss, list(self.variables.values()))
        for variable, gradient in zip(self.variables.values(), gradients, strict=True):
            variable.assign_sub(self._rate * gradient)

    def train(self, gradients: Sequence[Weights], samples: float = 1.0) -> None:
        for gradient in gradients:
            self._step({key: tf.constant(value) for key, value in gradient.items()})

    def weights(self) -> Weights:
        return {key: np.array(variable) for key, variable in self.variables.items()}

    def memory(self) -> dict[str, Weights]:
        return by_weight(self._options["compression"])
