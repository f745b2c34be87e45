"""Sparse gradients: what the core does in one pass is what the algebra's primitives do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch

from hvdlite.adapter.compression.dgc import DGC
from hvdlite.adapter.compression.landing import landed
from hvdlite.adapter.compression.methods import Method, Sparse, rounds
from hvdlite.adapter.compression.on_numpy import NumpyAlgebra
from hvdlite.adapter.compression.topk import TopK
from hvdlite.core import engine
from hvdlite.torch.compression.algebra import TorchAlgebra

Array = Any


class NumpyAfar(NumpyAlgebra):
    """Arrays that the core cannot read."""

    def is_lent(self, array: Array) -> bool:
        return False


class TorchAfar(TorchAlgebra):
    def is_lent(self, array: Array) -> bool:
        return False


PAIRS = {
    "numpy": (NumpyAlgebra(), NumpyAfar(), np.asarray),
    "torch": (TorchAlgebra(), TorchAfar(), torch.from_numpy),
}


def drawn(size: int, seed: int) -> Array:
    return np.random.default_rng(seed).standard_normal(size).astype(np.float32)


def step(methods: Sequence[Method], gradients: Sequence[Array], stacked: Any) -> list[Array]:
    """The sums of all ranks, as each of them gets it. `stacked`: makes one array of several."""
    size, ranks = len(gradients[0]), len(methods)
    ways = []
    for method, gradient in zip(methods, gradients, strict=True):
        state = method.state_of("w", gradient, (size, 1), ranks)
        part = method.part("w", (size, 1))
        ways.append(rounds(part, method.algebra, gradient, state, ranks))
    asked = [way.send(None) for way in ways]
    answer = [stacked(arrays) for arrays in zip(*(each.arrays for each in asked), strict=True)]
    totals = []
    for method, gradient, way in zip(methods, gradients, ways, strict=True):
        with pytest.raises(StopIteration) as end:
            way.send(answer)
        total, state = end.value.value
        method.keep("w", state)
        totals.append(landed(method.algebra, total, 1 / 3, gradient))
    return totals


@pytest.mark.parametrize("size", [30, 5000, 70_000])
@pytest.mark.parametrize("kind", PAIRS)
@pytest.mark.parametrize(
    "make, clips",
    [
        (lambda algebra: TopK(algebra, 0.01), False),
        (lambda algebra: DGC(algebra, 0.01), False),
        (lambda algebra: DGC(algebra, 0.3, momentum=0.5, nesterov=True), False),
        (lambda algebra: DGC(algebra, 0.01, masking=False), False),
        (lambda algebra: DGC(algebra, 0.01, clip=1.0), True),
    ],
    ids=["topk", "dgc", "nesterov", "unmasked", "clipped"],
)
def test_the_core_and_the_algebra_have_the_same_bits(
    make: Any, clips: bool, kind: str, size: int
) -> None:
    near, afar, own = PAIRS[kind]
    stacked = np.stack if kind == "numpy" else torch.stack
    by_core = [make(lambda: near) for _ in range(3)]
    by_algebra = [make(lambda: afar) for _ in range(3)]
    before = engine.selections()
    for number in range(4):
        gradients = [own(drawn(size, 10 * number + rank)) for rank in range(3)]
        if number == 2 and not clips:  # clipping would make all elements NaN
            gradients[1][size // 2] = float("nan")
        found = step(by_core, gradients, stacked)
        expected = step(by_algebra, gradients, stacked)
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_array_equal(np.asarray(one), np.asarray(other))
        for one, other in zip(by_core, by_algebra, strict=True):
            kept, also = one.state_dict()["memory"]["w"], other.state_dict()["memory"]["w"]
            assert kept.keys() == also.keys()
            for key in kept:
                np.testing.assert_array_equal(np.asarray(kept[key]), np.asarray(also[key]))
    # three ranks in four steps, and nothing of the others
    assert engine.selections() == (before[0] + 12, before[1] + 12)


def test_the_core_writes_a_sum_to_the_memory_of_the_tensor() -> None:
    algebra, tensor = NumpyAlgebra(), drawn(12, 1).reshape(3, 4)
    pairs = np.array([[2.0], [4.0]], np.float32), np.array([[5], [5]], np.int32)
    flat = algebra.flat(tensor)
    result = landed(algebra, Sparse(*pairs, flat, len(pairs[0])), 0.5, tensor, in_place=True)
    assert np.shares_memory(result, tensor)
    assert result.shape == (3, 4) and result[1, 1] == 3.0 and np.count_nonzero(result) == 1
    landed(algebra, Sparse(*pairs, flat, len(pairs[0])), 1.0, tensor)
    assert tensor[1, 1] == 3.0


def test_a_position_that_the_tensor_does_not_have_is_an_error() -> None:
    algebra, flat = NumpyAlgebra(), drawn(12, 1)
    for position in (12, -1):
        total = Sparse(np.ones((1, 1), np.float32), np.full((1, 1), position, np.int32), flat, 1)
        with pytest.raises(ValueError, match="12 elements does not have: give the tensor the same"):
            landed(algebra, total, 1.0, flat)


@pytest.mark.parametrize(
    "spoil, error, words",
    [
        (lambda arrays: arrays | {"residual": np.zeros(9, np.float32)}, ValueError, "differ"),
        (lambda arrays: arrays | {"residual": np.zeros(10)}, TypeError, "contiguous float32"),
        (lambda arrays: arrays | {"gradient": drawn(20, 1)[::2]}, TypeError, "contiguous float32"),
        (lambda arrays: arrays | {"positions": np.zeros(3, np.int64)}, TypeError, "contiguous"),
        (
            lambda arrays: (
                arrays | {"values": np.zeros(0, np.float32), "positions": np.zeros(0, np.int32)}
            ),
            ValueError,
            "cannot take 0 of 10 elements",
        ),
    ],
)
def test_arrays_that_do_not_fit_are_refused(spoil: Any, error: Any, words: str) -> None:
    arrays = {
        "gradient": drawn(10, 1),
        "residual": drawn(10, 2),
        "new_residual": np.empty(10, np.float32),
        "values": np.empty(3, np.float32),
        "positions": np.empty(3, np.int32),
    }
    engine.select(**arrays)
    with pytest.raises(error, match=words):
        engine.select(**spoil(arrays))
