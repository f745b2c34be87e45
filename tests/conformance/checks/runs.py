"""Training as the checks of compressors and strategies do it in every framework: two weights, by
gradients that are given, so that numpy knows what they have to become."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from checks.here import Here
from hvdlite.adapter.local.schedule import Count

Weights = dict[str, np.ndarray]
SHAPES = {"w": (12, 9), "b": (9,)}


class Run:
    """Trains the matrix "w" and the vector "b", which begin as zeros, with the loss
    sum(w * gradient["w"]) + sum(b * gradient["b"]).

    `inner` is what sgd() or adam() returns, or another optimizer of the framework in that form.
    `wrap` names what makes it hvdlite's and takes the options; with "" it is used as it is.
    `widest`: the weights have the framework's widest dtype, and close() its tolerance.
    """

    modes: tuple[str, ...] = ("eager",)
    mode = "eager"  # the one of modes that costs least
    # Those in which a step may have conditions; the first costs least.
    modes_of_conditions: tuple[str, ...] = ("eager",)
    modes_by_time = modes_of_conditions  # those in which averages may go by time
    momenta = ("momentum=", "betas=")  # by which options sgd() and adam() have one
    trials = 9  # steps after which Compression.auto has decided
    has_passes = True  # backward_passes_per_step
    has_samples = True  # a program says of how many samples a step was
    tolerance = 2e-6

    def __init__(
        self, inner: Any, wrap: str = "DistributedOptimizer", *, mode: str = "",
        widest: bool = False, **options: Any,
    ) -> None:  # fmt: skip
        raise NotImplementedError

    @staticmethod
    def sgd(rate: float, momentum: float = 0.0, nesterov: bool = False) -> Any:
        raise NotImplementedError

    @staticmethod
    def adam(rate: float, weight_decay: float = 0.0) -> Any:
        raise NotImplementedError

    @staticmethod
    def onebit_adam(rate: float, **options: Any) -> Any:
        """hvd.OneBitAdam, which is not to be wrapped."""
        raise NotImplementedError

    @staticmethod
    def lars(rate: float) -> Any:
        """With momentum and weight decay."""
        raise NotImplementedError

    @staticmethod
    def lamb(rate: float) -> Any:
        raise NotImplementedError

    def train(self, gradients: Sequence[Weights], samples: float = 1.0) -> None:
        """A step with each of them, for local steps of so many samples."""
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

    def count(self) -> Count:
        """Of local steps."""
        raise NotImplementedError

    def outer(self) -> dict[str, Any]:
        """DiLoCo's anchor and velocity of each weight."""
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
    return [{key: np.mean([each[key] for each in of_step], axis=0, dtype=np.float64)
             for key in SHAPES} for of_step in everyones]  # fmt: skip


def same_everywhere(here: Here, *trained: Weights) -> None:
    """Bit by bit."""
    for weights in trained:
        for key in SHAPES:
            here.saw(weights[key])
    here.settle()


def close(got: Weights, want: Weights, tolerance: float) -> None:
    for key in SHAPES:
        np.testing.assert_allclose(got[key], want[key], rtol=tolerance, atol=tolerance)


def equal(got: Weights, want: Weights) -> bool:
    """Bit by bit."""
    return all(np.array_equal(got[key], want[key]) for key in SHAPES)


def by_weight(compression: Any) -> dict[str, Weights]:
    """A compressor's memory, or that of auto's candidates, under the names of the weights alone:
    adapters add to them."""
    state = compression.state_dict()
    return {
        name.partition("#")[0].rpartition("/")[2]: {k: np.asarray(v) for k, v in of.items()}
        for each in ([state] if "memory" in state else state.values())
        for name, of in each["memory"].items()
    }
