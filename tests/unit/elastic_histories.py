"""How many random histories a test of elastic training tries, and from which seed."""

from __future__ import annotations

import os
import random

import tier


def histories(quick: int, everything: int) -> int:
    """`everything` only where a run has asked for the tier `all`, as scripts/test --all does."""
    return everything if os.environ.get("HVDLITE_TEST_TIER") == "all" else quick


def seeded(what: str) -> random.Random:
    """Numbers by HVDLITE_TEST_SEED and the name of the test. The seed is printed when it fails."""
    print(f"HVDLITE_TEST_SEED={tier.SEED}, {what}")
    return random.Random(f"{tier.SEED} {what}")
