"""Training by given gradients with hvdlite.keras, in fit()."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from checks import runs
from checks.keras_here import contents, hvd, jit_modes, jit_modes_for_conditions, keras
from checks.runs import SHAPES, Weights, by_weight
from hvdlite.adapter.local.schedule import Count

_COMPILED = {"at once": False, "compiled": True}
_OF_W = int(np.prod(SHAPES["w"]))


class _Products(keras.layers.Layer):  # type: ignore[misc, name-defined]
    """The loss of each row, which is the gradients of all weights."""

    def build(self, shape: Any) -> None:
        self.of = [
            self.add_weight(shape=shape, initializer="zeros", name=key)
            for key, shape in SHAPES.items()
        ]

    def call(self, rows: Any) -> Any:
        parts = rows[:, :_OF_W], rows[:, _OF_W:]
        flat = [keras.ops.reshape(weight, (-1,)) for weight in self.of]
        return sum(keras.ops.matmul(*pair) for pair in zip(parts, flat, strict=True))


class KerasRun(runs.Run):
    modes = tuple(mode for mode, jit in _COMPILED.items() if jit in jit_modes())
    mode = "at once"
    has_samples = False
    momenta = ("momentum=", "beta_1=")
    modes_of_conditions = tuple(
        mode for mode, jit in _COMPILED.items() if jit in jit_modes_for_conditions()
    )
    modes_by_time = modes_of_conditions[:1]  # XLA of TensorFlow has no clock

    def __init__(
        self, inner: Any, wrap: str = "DistributedOptimizer", *, mode: str = "",
        widest: bool = False, **options: Any,
    ) -> None:  # fmt: skip
        self._products = _Products()
        self.net = keras.Sequential(
            [keras.Input((sum(map(np.prod, SHAPES.values())),)), self._products]
        )
        self.optimizer = getattr(hvd, wrap)(inner, **options) if wrap else inner
        self._compression = options.get("compression")
        self.net.compile(
            optimizer=self.optimizer,
            loss=lambda _, value: value,
            jit_compile=_COMPILED[mode or self.mode],
        )

    @staticmethod
    def sgd(rate: float, momentum: float = 0.0, nesterov: bool = False) -> Any:
        return keras.optimizers.SGD(rate, momentum=momentum, nesterov=nesterov)

    @staticmethod
    def adam(rate: float, weight_decay: float = 0.0) -> Any:
        return keras.optimizers.Adam(rate, weight_decay=weight_decay)

    @staticmethod
    def onebit_adam(rate: float, **options: Any) -> Any:
        return hvd.OneBitAdam(rate, **options)

    @staticmethod
    def lars(rate: float) -> Any:
        return hvd.LARS(rate, momentum=0.9, weight_decay=0.01, trust=0.1, nesterov=True)

    @staticmethod
    def lamb(rate: float) -> Any:
        return keras.optimizers.Lamb(rate)

    def train(self, gradients: Sequence[Weights], samples: float = 1.0) -> None:
        rows = np.stack([np.concatenate([g[key].ravel() for key in SHAPES]) for g in gradients])
        self.net.fit(rows, np.zeros(len(rows)), batch_size=1, shuffle=False, verbose=0)

    def weights(self) -> Weights:
        return dict(zip(SHAPES, contents(self._products.of), strict=True))

    def memory(self) -> dict[str, Weights]:
        return by_weight(self._compression)

    def moments(self, order: int) -> Weights:
        of = self.optimizer.velocities if order == 2 else self.optimizer.momentums
        return dict(zip(SHAPES, contents(of), strict=True))

    def sync(self) -> None:
        self.optimizer.sync()

    def count(self) -> Count:
        return Count(*map(float, contents([self.optimizer._hvd_count])[0]))

    def outer(self) -> dict[str, Any]:
        return dict(zip(SHAPES, map(contents, self.optimizer._hvd_outer), strict=True))
