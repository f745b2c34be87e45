"""A step's reduction over the primitives of a backend: what travels together, what stays, what
counts as zeros."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

pytest.importorskip("hvdlite._core")

from hvdlite.adapter import step  # noqa: E402
from hvdlite.adapter.at_once.primitives import Backend, Group
from hvdlite.adapter.at_once.reduction import reduced  # noqa: E402
from hvdlite.adapter.compression import Compressor  # noqa: E402
from hvdlite.base.ops import Sum  # noqa: E402


class Doubling(Backend):
    """Numbers as tensors, lists as sparse ones; two ranks that have the same."""

    def __init__(self, *missing_elsewhere: int) -> None:
        self.sent: list[Group] = []
        self._missing = missing_elsewhere
        self.dynamic = bool(missing_elsewhere)

    def allreduce(self, groups: Sequence[Group], options: step.Options) -> Group:
        self.sent += [dict(group) for group in groups]
        return {i: value if i < 0 else value * 2 for group in groups for i, value in group.items()}

    def is_sparse(self, gradient: Any) -> bool:
        return isinstance(gradient, list)

    def to_dense(self, gradient: Any) -> Any:
        return sum(gradient)

    def shared_out(self, gradient: Any, process_set: Any) -> Any:
        return gradient / 2

    def flags(self, values: Sequence[bool]) -> Any:
        return [seen or place not in self._missing for place, seen in enumerate(values)]

    def seen(self, flags: Any) -> Sequence[bool]:
        return list(flags)

    def zeros_like(self, variable: Any) -> Any:
        return 0.0


class Halving(Compressor):
    def compress(self, tensor: Any, name: str | None = None) -> tuple[Any, Any]:
        return tensor / 2, name

    def decompress(self, tensor: Any, ctx: Any) -> Any:
        assert ctx.startswith("mine.gradient.")
        return tensor * 2


@pytest.fixture(autouse=True)
def two_ranks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(step.Options, "reduces", lambda self: True)


OPTIONS = step.options_of(Sum, 1.0, Compressor())
VARIABLES = [object() for _ in range(4)]


def test_all_travel_together_unless_the_program_says_otherwise() -> None:
    for groups, sent in [
        (None, [{0: 1.0, 1: 2.0, 3: 4.0}]),
        (2, [{0: 1.0, 1: 2.0}, {3: 4.0}]),
        ([[VARIABLES[3], VARIABLES[0]]], [{3: 4.0, 0: 1.0}, {1: 2.0}]),
    ]:
        backend = Doubling()
        options = replace(OPTIONS, groups=groups)
        assert reduced(options, backend, [1.0, 2.0, None, 4.0], VARIABLES) == [2.0, 4.0, None, 8.0]
        assert backend.sent == sent


@pytest.mark.parametrize("scale", [True, False])
def test_local_gradients_stay_and_are_divided_if_asked_for(scale: bool) -> None:
    backend = Doubling()
    local = [id(VARIABLES[1]), id(VARIABLES[2])]
    options = replace(OPTIONS, scale_local=scale)
    mine = 1.0 if scale else 2.0
    assert reduced(options, backend, [1.0, 2.0, None, 4.0], VARIABLES, local) == [
        2.0,
        mine,
        None,
        8.0,
    ]
    assert backend.sent == [{0: 1.0, 3: 4.0}]


def test_sparse_gradients_become_dense_if_asked_for_and_are_compressed_only_then() -> None:
    options = replace(OPTIONS, compression=step.CompressionAdapter(Halving()), scope="mine.")
    gradients = [1.0, [1.0, 2.0]]
    assert reduced(options, Doubling(), gradients, VARIABLES[:2]) == [2.0, [1.0, 2.0, 1.0, 2.0]]
    backend = Doubling()
    assert reduced(replace(options, sparse_as_dense=True), backend, gradients, VARIABLES[:2]) == [
        2.0,
        6.0,
    ]
    assert backend.sent == [{0: 0.5, 1: 1.5}]


def test_a_gradient_that_some_ranks_lack_is_zeros_there_and_one_that_all_lack_stays_none() -> None:
    backend = Doubling(2)
    assert reduced(OPTIONS, backend, [1.0, None, None, 4.0], VARIABLES) == [2.0, 0.0, None, 8.0]
    assert backend.sent == [{-1: [True, True, False, True], 0: 1.0, 1: 0.0, 2: 0.0, 3: 4.0}]
