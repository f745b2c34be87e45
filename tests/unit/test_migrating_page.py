"""docs/guides/migrating.md: its example is what the doctor says, and its lists are those of the
code."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from hvdlite.launch import flags
from hvdlite.tools.commands.cli import main
from hvdlite.tools.doctor import advice

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "guides" / "migrating.md").read_text()


def test_the_doctor_says_what_the_page_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    program = re.search(r"```python\n(.*?)```", PAGE, re.S)
    output = re.search(r"\$ hvdlite doctor old_train.py\n(.*?)```", PAGE, re.S)
    assert program is not None and output is not None
    (tmp_path / "old_train.py").write_text(program[1])
    monkeypatch.chdir(tmp_path)
    assert main(["doctor", "old_train.py"]) == 1
    assert capsys.readouterr().out == output[1]


def _paragraph(beginning: str) -> set[str]:
    text = PAGE[PAGE.index(beginning) :].split("\n\n")[0].split("\n")
    return set(re.findall(r"`([-A-Z0-9_a-z]+)`", " ".join(text).partition(". ")[0]))


def test_the_lists_are_complete() -> None:
    assert _paragraph("These have no effect") == {
        foreign.flags[0] for foreign in flags.WITHOUT_EFFECT
    }
    without = {name for name in advice.NO_EFFECT if advice.NO_EFFECT[name] != advice.BUILD}
    assert _paragraph("Without effect are") == without
