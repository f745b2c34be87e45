"""tests/multiprocess/elastic-checklist.md names tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
_FOLDERS = {"M": "multiprocess", "U": "unit", "D": "drop_in"}
_NAMED = re.compile(r"`([MUD])/(\w+\.py)(?:::(\w+)(?:\[[^`]*)?)?`")


def test_each_line_of_the_elastic_checklist_names_tests_that_exist() -> None:
    text = (TESTS / "multiprocess" / "elastic-checklist.md").read_text()
    rows = [line for line in text.splitlines() if line.startswith("| ")][1:]
    assert len(rows) > 60
    missing = []
    for row in rows:
        named = _NAMED.findall(row)
        assert row.startswith("| promise |") or named, row
        for folder, file, test in named:
            path = TESTS / _FOLDERS[folder] / file
            if not path.exists() or (test and f"def {test}(" not in path.read_text()):
                missing.append(f"{folder}/{file}::{test}")
    assert missing == []
