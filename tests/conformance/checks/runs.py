"""Training as the checks of compressors and strategies do it in every framework: two weights, by
gradients that are given, so that numpy knows what they have to become."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from checks.here import Here

Weights = dict[str, np.ndarray]
SHAPES = {"w": (12, 9), "b": (9,)}


class Run:
    """Trains the matrix "w" and the vector "b", which begin as zeros, with the loss
    sum(w * gradient["w"]) + sum(b * gradient["b"]).

    `inner` is what sgd() or adam() returns, or another optimizer of the framework in that form.
    `wrap` names what makes it hvdlite's and takes the options; with "" it is used as it is.
    """

    modes: tuple[str, ...] = ("eager",)
    mode = "eager"  # the one of modes that costs least
    # Those in which a step may have conditions.
    modes_of_conditions: tuple[str, ...] = ("eager",)

    def __init__(
        self, inner: Any, wrap: str = "DistributedOptimizer", *, mode: str = "", **options: Any
    ) -> None:
        raise NotImplementedError

    @staticmethod
    def sgd(rate: float, momentum: float = 0.0) -> Any:
        raise NotImplementedError

    @staticmethod
    def adam(rate: float, weight_decay: float = 0.0) -> Any:
        raise NotImplementedError

    @staticmethod
    def onebit_adam(rate: float, **options: Any) -> Any:
        """hvd.OneBitAdam, which is not to be wrapped."""
        raise NotImplementedError

    def train(self, gradients: Sequence[Weights]) -> None:
        """A step with each of them."""
        raise NotImplementedError

    def weights(self) -> Weights:
        raise NotImplementedError

    def memory(self) -> dict[str, Weights]:
        """What the compressor remembers, by weights."""
        raise NotImplementedError

    def moments(self, order: int) -> Weights:
        """The optimizer's momentum (1) or its squares (2)."""
        raise NotImplementedError

    def sync(self) -> None:
        """Ends local steps: hvd.LocalSGD's and hvd.DiLoCo's."""
        raise NotImplementedError


def gradients(rank: int, steps: int, first: int = 0) -> list[Weights]:
    """Those of a rank, which all ranks know."""
    draws = [np.random.default_rng([rank, step]) for step in range(first, first + steps)]
    return [
        {key: draw.standard_normal(shape).astype(np.float32) for key, shape in SHAPES.items()}
        for draw in draws
    ]


def mean_gradients(here: Here, steps: int, first: int = 0) -> list[Weights]:
    """Averaged over the ranks."""
    everyones = zip(*(gradients(rank, steps, first) for rank in here.ranks), strict=True)
    return [{key: np.mean([each[key] for each in of_step], axis=0) for key in SHAPES}
            for of_step in everyones]  # fmt: skip


def same_everywhere(here: Here, *trained: Weights) -> None:
    """Bit by bit."""
    for weights in trained:
        for key in SHAPES:
            here.saw(weights[key])
    here.settle()


def by_weight(memory: dict[str, Any], array: Any = np.asarray) -> dict[str, Weights]:
    """A compressor's memory under the names of the weights alone: adapters add to them."""
    return {
        name.partition("#")[0].rpartition("/")[2]: {key: array(value) for key, value in of.items()}
        for name, of in memory.items()
    }
