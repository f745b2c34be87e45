"""Sparse gradients: what the core does in one operation is what the algebra's primitives do. (The
checks of torch_methods.py compare them among several ranks.)"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

import hvdlite as hvd  # noqa: E402
from hvdlite.adapter.compression.dgc import DGC  # noqa: E402
from hvdlite.adapter.compression.on_numpy import NumpyAlgebra  # noqa: E402
from hvdlite.adapter.compression.rounds import compressed_allreduce  # noqa: E402
from hvdlite.adapter.compression.topk import TopK  # noqa: E402
from hvdlite.base.operations import ALLREDUCE  # noqa: E402
from hvdlite.core import engine  # noqa: E402
from hvdlite.core.arrays.ops import OPS  # noqa: E402
from hvdlite.core.operations import Call  # noqa: E402
from hvdlite.torch.compression.algebra import TorchAlgebra  # noqa: E402
from hvdlite.torch.ops import OPS as TORCH_OPS  # noqa: E402

Array = Any


class NumpyAfar(NumpyAlgebra):
    """Arrays that the core cannot read."""

    def is_lent(self, array: Array) -> bool:
        return False


class TorchAfar(TorchAlgebra):
    def is_lent(self, array: Array) -> bool:
        return False


PAIRS = {
    "numpy": (NumpyAlgebra(), NumpyAfar(), np.asarray, OPS),
    "torch": (TorchAlgebra(), TorchAfar(), torch.from_numpy, TORCH_OPS),
}


@pytest.fixture(autouse=True)
def job() -> Iterator[None]:
    hvd.init()
    yield
    hvd.shutdown()


def drawn(size: int, seed: int) -> Array:
    return np.random.default_rng(seed).standard_normal(size).astype(np.float32)


def sparse_operations() -> int:
    return hvd.metrics()["carried_by"].get("sparse", {}).get("allreduce", 0)


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
    near, afar, own, ops = PAIRS[kind]
    by_core, by_algebra = make(lambda: near), make(lambda: afar)
    call = Call(ALLREDUCE, "w", hvd.global_process_set, hvd.Sum, postscale=1 / 3)
    before = sparse_operations()
    for number in range(4):
        gradient = own(drawn(size, number)).reshape(size, 1)
        if number == 2 and not clips:  # clipping would make all elements NaN
            gradient[size // 2] = float("nan")
        (found,) = compressed_allreduce(by_core, ops, call, [gradient])
        (expected,) = compressed_allreduce(by_algebra, ops, call, [gradient])
        np.testing.assert_array_equal(np.asarray(found), np.asarray(expected))
        kept, also = (each.state_dict()["memory"]["w"] for each in (by_core, by_algebra))
        assert kept.keys() == also.keys()
        for key in kept:
            np.testing.assert_array_equal(np.asarray(kept[key]), np.asarray(also[key]))
    assert sparse_operations() == before + 4


def test_the_core_writes_a_sum_to_the_memory_of_the_tensor() -> None:
    tensor = drawn(12, 1).reshape(3, 4)
    tensor[1, 1] = 6.0
    call = Call(ALLREDUCE, "w", hvd.global_process_set, hvd.Sum, postscale=0.5, in_place=True)
    (result,) = compressed_allreduce(TopK(NumpyAlgebra, 0.01), OPS, call, [tensor])
    assert np.shares_memory(result, tensor)
    assert result.shape == (3, 4) and result[1, 1] == 3.0 and np.count_nonzero(result) == 1


@pytest.mark.parametrize(
    "spoil, error, words",
    [
        ({"residual": np.zeros(9, np.float32)}, ValueError, "differ in length"),
        ({"velocity": np.zeros(9, np.float32)}, ValueError, "differ in length"),
        ({"residual": np.zeros(10)}, TypeError, "contiguous float32"),
        ({"residual": drawn(20, 1)[::2]}, TypeError, "contiguous float32"),
        ({"input": drawn(11, 1)}, ValueError, "as many elements as the tensor"),
        ({"input": np.zeros(10)}, ValueError, "fewer than 2\\^31 elements of float32"),
        ({"velocity": np.zeros(10, np.float32)}, ValueError, "before and after"),
        ({"taken": 0}, ValueError, "cannot take 0 of 10 elements"),
        ({"taken": 11}, ValueError, "cannot take 11 of 10 elements"),
        ({"op": hvd.Max}, ValueError, "op Average or Sum, and no codec.* with op Max"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(spoil: Any, error: Any, words: str) -> None:
    arguments = {
        "op": hvd.Sum,
        "process_set": 0,
        "name": "w",
        "input": drawn(10, 1),
        "output": np.empty(10, np.float32),
        "prescale": 1.0,
        "postscale": 1.0,
        "taken": 3,
        "residual": drawn(10, 2),
        "new_residual": np.empty(10, np.float32),
    }
    engine.synchronize(engine.new_handle(engine.Pending([engine.submit_sparse(**arguments)], len)))
    if "input" in spoil:
        spoil = spoil | {"output": np.empty_like(spoil["input"])}
    with pytest.raises(error, match=words):
        engine.submit_sparse(**arguments | spoil)


def test_two_memories_take_turns() -> None:
    method = TopK(NumpyAlgebra, 0.1)
    call = Call(ALLREDUCE, "w", hvd.global_process_set, hvd.Sum)
    places = []
    for number in range(6):
        compressed_allreduce(method, OPS, call, [drawn(40, number).reshape(8, 5)])
        places.append(method._memory["w"]["residual"].ctypes.data)
    assert places[0] != places[1]
    assert places[::2] == [places[0]] * 3 and places[1::2] == [places[1]] * 3
