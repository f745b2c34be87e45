"""What checks of the drift guard share."""

from __future__ import annotations

import contextlib
import os
import warnings
from collections.abc import Callable, Iterator

from checks.here import Here


@contextlib.contextmanager
def drifting(steps: int, mode: str = "error", first: str = "off") -> Iterator[None]:
    """The knobs are read when a guard is made, and `first`, about the first step, in that step."""
    chosen = {
        "HVDLITE_DRIFT": mode,
        "HVDLITE_DRIFT_STEPS": str(steps),
        "HVDLITE_PARAMETER_CHECK": first,
    }
    before = {name: os.environ.get(name) for name in chosen}
    os.environ.update(chosen)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def odd_one(here: Here, rank: int) -> tuple[str, ...]:
    """What a message says of a rank that differs from all others."""
    if here.size == 2:
        return ("differs between rank 0 and rank 1", "no majority")
    return (f"of rank {rank} differs from that of the other {here.size - 1} ranks",)


def told_once(here: Here, train: Callable[[], None], *words: str) -> None:
    """While the ranks train on, rank 0 warns once, with these words; no other rank does."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        train()
    said = [str(each.message) for each in caught if "finite" in str(each.message)]
    assert len(said) == (here.rank == 0), said
    for each in said:
        assert all(word in each for word in words), each
