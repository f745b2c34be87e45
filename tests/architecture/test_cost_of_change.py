"""A collective is named in few files, and a framework brings few lines: scripts/cost-of-change has
the goals."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "cost-of-change"


def test_the_cost_of_a_change_is_within_its_goals() -> None:
    done = subprocess.run([sys.executable, SCRIPT, "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
