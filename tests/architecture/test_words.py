"""CONTRIBUTING's rules of prose, as far as they can be counted."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

#: Pronouns for people. A thread, a rank or a process has a name of its own.
PEOPLE = re.compile(r"\b(whoever|nobody|anybody|everybody|somebody)\b", re.I)
MOST = 20


def test_sentences_name_their_subject() -> None:
    files = [p for folder in ("csrc", "hvdlite", "docs") for p in (ROOT / folder).rglob("*")]
    files = [p for p in files if p.suffix in (".cc", ".h", ".def", ".py", ".md")]
    found = [
        f"{p.relative_to(ROOT)}: {match[0]}"
        for p in files
        for match in PEOPLE.finditer(p.read_text())
    ]
    assert len(found) <= MOST, "\n".join(found)


#: hvdlite is on no index: a command with its name would install a stranger's package.
FROM_AN_INDEX = re.compile(
    r"hvdlite\[(config|lightning|mpi|optuna|ray|spark)\]"
    r"|pip3? (install|wheel)( -\S+| \w+)* hvdlite\b"
)


def test_nothing_tells_to_install_hvdlite_from_an_index() -> None:
    folders = ("hvdlite", "docs", "examples", "scripts")
    files = [p for folder in folders for p in (ROOT / folder).rglob("*") if p.is_file()]
    files = [p for p in files if p.suffix != ".pyc"]  # of an older commit, perhaps
    files += [ROOT / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md")]
    found = [
        f"{p.relative_to(ROOT)}: {match[0]}"
        for p in files
        for match in FROM_AN_INDEX.finditer(p.read_bytes().decode(errors="replace"))
    ]
    assert found == []
