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

TIERS = ("quick", "commit", "all")
TIER = os.environ.get("HVDLITE_TEST_TIER", "all")
SEED = os.environ.get("HVDLITE_TEST_SEED", "0")
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
