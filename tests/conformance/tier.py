"""Which part of the products of parameters a run takes: `HVDLITE_TEST_TIER` is quick, commit or all
(the default).

In `quick` and `commit` a test that is multiplied by a parameter runs with one of its values, picked
by `HVDLITE_TEST_SEED` and the test's name. The same seed picks the same values, so a red run can be
repeated.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from typing import TypeVar

Value = TypeVar("Value")
Other = TypeVar("Other")

# Of what is costly (more than four seconds of the processor, or twelve of waiting) `quick` and
# `commit` take one in so many.
COSTLY_TURNS = 12

TIERS = ("quick", "commit", "all")
VARIABLES = ("HVDLITE_TEST_TIER", "HVDLITE_TEST_SEED")
TIER = os.environ.get(VARIABLES[0], "all")
SEED = os.environ.get(VARIABLES[1], "0")
assert TIER in TIERS, f"HVDLITE_TEST_TIER={TIER}: one of {', '.join(TIERS)}"


def draw(what: str, among: int) -> int:
    """A number below `among`, which depends on the seed and on `what` alone."""
    return int.from_bytes(hashlib.sha256(f"{SEED} {what}".encode()).digest()[:8], "big") % among


def by_tier(
    quick: Sequence[Value], commit: Sequence[Value], everything: Sequence[Value]
) -> Sequence[Value]:
    return {"quick": quick, "commit": commit, "all": everything}[TIER]


def one_of(values: Sequence[Value], what: str) -> Sequence[Value]:
    """All values in the tier `all`, else the one that the seed picks for `what`."""
    return values if TIER == "all" else [values[draw(what, len(values))]]


def some_pairs(
    values: Sequence[Value], others: Sequence[Other], among: int = 3
) -> list[tuple[Value, Other]]:
    """In the tier `all` every pair, else every third one: each value has an equal part of the
    others."""
    pairs = [(value, other) for value in values for other in others]
    if TIER == "all" or not others:
        return pairs
    turns = min(among, len(others))
    first = draw(repr(others), turns)
    width = len(others)
    return [
        pair for at, pair in enumerate(pairs) if (at // width + at % width + first) % turns == 0
    ]


def is_turn(what: str, turns: int) -> bool:
    """In the tier `all` always, else once in so many seeds."""
    return TIER == "all" or draw(what, turns) == 0


def by_turns(values: Sequence[Value], what: str, turns: int) -> Sequence[Value]:
    """Every so-manieth value, beginning with one that the seed picks for `what`."""
    return values[draw(what, turns) :: turns]
