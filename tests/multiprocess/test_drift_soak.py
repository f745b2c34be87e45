"""The drift guard between processes: no false alarm in many comparisons, and none after ranks have
left an elastic job."""

from __future__ import annotations

import sys

import pytest
from launched import ROOT

sys.path.insert(0, str(ROOT / "tests" / "soak"))
import drift  # noqa: E402


@pytest.mark.parametrize("ranks", [2, 3])
def test_comparisons_of_equal_parameters_raise_no_alarm(ranks: int) -> None:
    """tests/soak/drift.py makes a million of them."""
    compared, _ = drift.soak(ranks, 10_000)
    assert compared >= 10_000
