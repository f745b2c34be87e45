"""The drift guard between processes: no false alarm in many comparisons, also in real training, and
an alarm for each flipped bit."""

from __future__ import annotations

import sys

import pytest
from launched import ROOT, Job

sys.path.insert(0, str(ROOT / "tests" / "soak"))
import drift  # noqa: E402
import drift_in_training  # noqa: E402


@pytest.mark.parametrize("ranks", [2, 3])
def test_comparisons_of_equal_parameters_raise_no_alarm(ranks: int) -> None:
    """tests/soak/drift.py makes a million of them."""
    compared, _ = drift.soak(ranks, 10_000)
    assert compared >= 10_000


@pytest.mark.costly
@pytest.mark.parametrize("way", drift_in_training.WAYS)
def test_training_raises_no_alarm_and_a_flipped_bit_does(job: Job, way: str) -> None:
    """tests/soak/drift_in_training.py makes a million comparisons."""
    outcome = drift_in_training.soak(job, way, comparisons=500, flips=3)
    assert outcome.compared >= 500 and len(outcome.flips) == 3
