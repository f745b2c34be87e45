"""What step() keeps of numpy's random numbers: it reads them only if they have changed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from hvdlite.elastic.randomness import OF_NUMPY

# Each changes the state in another place: `normal()` returns the second number of a pair without
# a new number of the bit generator.
CHANGES: dict[str, Callable[[], Any]] = {
    "random": np.random.random,
    "normal, first of a pair": np.random.normal,
    "normal, second of a pair": np.random.normal,
    "seed": lambda: np.random.seed(3),
    "normal after seed": np.random.normal,
    "set_state": lambda: np.random.set_state(np.random.RandomState(4).get_state()),
    "another pair's second number": lambda: np.random.set_state(_with_another_normal()),
}


def _with_another_normal() -> tuple[Any, ...]:
    name, key, position, _, _ = np.random.get_state()
    return name, key, position, 1, 0.5


def _same(one: Any, other: Any) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


@pytest.fixture(autouse=True)
def _numpys_state() -> Iterator[None]:
    before = np.random.get_state()
    yield
    np.random.set_state(before)


def test_every_change_of_numpys_state_is_seen() -> None:
    np.random.seed(1)
    for what, change in CHANGES.items():
        before = OF_NUMPY.state()
        change()
        kept = OF_NUMPY.state()
        assert not _same(before, kept), what
        assert _same(kept, np.random.get_state()), what


def test_a_state_that_has_not_changed_is_not_read_again() -> None:
    assert OF_NUMPY.state() is OF_NUMPY.state()


def test_numbers_are_drawn_again_behind_set_state() -> None:
    kept = OF_NUMPY.state()
    drawn = np.random.normal(), np.random.normal(), np.random.random()
    OF_NUMPY.set_state(kept)
    assert (np.random.normal(), np.random.normal(), np.random.random()) == drawn


def test_another_bit_generator_is_seen() -> None:
    mersenne = np.random.get_bit_generator()
    kept = OF_NUMPY.state()
    np.random.set_bit_generator(np.random.MT19937(5))
    try:
        assert not _same(kept, OF_NUMPY.state())
    finally:
        np.random.set_bit_generator(mersenne)
