"""The order of an epoch: a permutation, the same on all machines and in all versions."""

from __future__ import annotations

import numpy as np
import pytest

from hvdlite.data import order
from hvdlite.data.order import shuffled


def _whole(length: int, seed: int = 0, epoch: int = 0) -> list[int]:
    return shuffled(length, seed, epoch)(np.arange(length)).tolist()


@pytest.fixture(params=["table", "bijection"])
def either(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "bijection":
        monkeypatch.setattr(order, "TABLE_MOST", 0)
    return str(request.param)


@pytest.mark.parametrize("length", [*range(1, 70), 127, 128, 129, 255, 256, 257, 4095, 4097, 65537])
def test_it_is_a_permutation(either: str, length: int) -> None:
    assert sorted(_whole(length, seed=length)) == list(range(length))


def test_seed_and_epoch_alone_decide(either: str) -> None:
    whole = _whole(1000, seed=3, epoch=5)
    assert _whole(1000, seed=3, epoch=5) == whole
    others = [_whole(1000, 3, 6), _whole(1000, 4, 5), _whole(1000, -3, 5), _whole(1000, 35, 0)]
    assert whole not in others and len({tuple(other) for other in others}) == 4


def test_a_part_is_a_part_of_the_whole(either: str) -> None:
    ordered, whole = shuffled(1000, 1, 2), _whole(1000, 1, 2)
    places = np.array([999, 0, 17, 17])
    assert ordered(places).tolist() == [whole[place] for place in places]
    assert ordered(np.array([], dtype=np.int64)).tolist() == []
    assert ordered(places).dtype == np.int64


def test_the_orders_are_what_they_have_always_been(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ranks with other versions of numpy, and states of other years, need the same."""
    assert _whole(12, seed=7, epoch=3) == TABLE
    monkeypatch.setattr(order, "TABLE_MOST", 0)
    assert _whole(12, seed=7, epoch=3) == BIJECTION


TABLE = [10, 3, 5, 8, 6, 0, 2, 1, 7, 9, 4, 11]
BIJECTION = [11, 7, 8, 6, 10, 9, 3, 5, 0, 4, 1, 2]


def test_neighbours_do_not_stay_neighbours(either: str) -> None:
    found = np.array(_whole(10_000, seed=1))
    assert (np.abs(np.diff(found)) == 1).sum() < 12
    assert 4_500 < found[:5_000].mean() < 5_500
    fixed = (found == np.arange(10_000)).sum()
    assert fixed < 10


@pytest.mark.parametrize("length", [10_000_001, 2**40 + 1, 2**62])
def test_large_data_sets_need_no_table(length: int) -> None:
    places = np.unique(np.linspace(0, length - 1, 10_000).astype(np.int64))
    places = np.concatenate([places[places < length], np.arange(1000)])
    found = shuffled(length, 1, 1)(np.unique(places))
    assert found.min() >= 0 and found.max() < length
    assert len(np.unique(found)) == len(np.unique(places))
    assert 0.4 * length < found.mean() < 0.6 * length
