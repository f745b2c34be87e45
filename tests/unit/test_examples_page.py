"""docs/examples.md has a line for each program of examples/."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_each_example_is_listed_and_each_listed_one_is_there() -> None:
    page = (ROOT / "docs" / "examples.md").read_text()
    first_cells = re.findall(r"^\| (.*?) \|", page, re.M)
    listed = [name for cell in first_cells for name in re.findall(r"`([^`]+)`", cell)]
    there = [
        f"{path.name}/" if path.is_dir() else path.name
        for path in (ROOT / "examples").iterdir()
        if path.name != "__pycache__"
    ]
    assert sorted(listed) == sorted(there)
