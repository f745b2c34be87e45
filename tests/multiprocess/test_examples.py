"""Every example runs, and shows what a person wants to see."""

from __future__ import annotations

import re

import pytest
from launched import ROOT, Job


def test_every_example_is_tested_here() -> None:
    assert {p.name for p in (ROOT / "examples").glob("*.py")} == {"digits_mlp.py"}


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_digits_mlp_learns_and_the_ranks_stay_together(job: Job, ranks: int) -> None:
    pytest.importorskip("sklearn", reason="scikit-learn has the digits")
    done = job.run("-np", str(ranks), "python", str(ROOT / "examples" / "digits_mlp.py"), "--epochs", "6")
    said = done.stdout.decode()
    assert done.returncode == 0, done.stderr.decode()
    assert f"{ranks} ranks" in said and "weights equal on all ranks" in said
    accuracy = [float(a) for a in re.findall(r"accuracy ([\d.]+)", said)]
    assert len(accuracy) == 6 and accuracy[-1] > 0.93
