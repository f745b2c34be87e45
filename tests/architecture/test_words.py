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


#: What a reader has called odd or wrong English, and its like.
ODD = re.compile(
    r"\b(the begin of|their kin|is no (terminal|rank|member|error|problem)|seldom"
    r"|sees? to (it|that)|hosts of the moment|told (once|beforehand)|What there is not"
    r"|behind (the|its) (loop|step))\b"
    r"|\bprocess' ",
    re.I,
)


def test_pages_of_the_site_have_no_odd_phrases() -> None:
    pages = [ROOT / "README.md", *(p for p in (ROOT / "docs").rglob("*.md"))]
    pages = [p for p in pages if p.parent.name != "decisions"]
    found = [f"{p.relative_to(ROOT)}: {m[0]}" for p in pages for m in ODD.finditer(p.read_text())]
    assert found == []


def test_heads_of_tables_begin_with_a_capital() -> None:
    folders = [ROOT / "docs" / name for name in ("guides", "start")]
    pages = [*(ROOT / "docs").glob("*.md"), *(p for each in folders for p in each.glob("*.md"))]
    heads = [
        (page.name, cell)
        for page in pages
        for head in re.findall(r"^\|(.*)\|\n\|[-:| ]+\|$", page.read_text(), re.M)
        for cell in map(str.strip, head.split("|"))
    ]
    names = ("hvdlite", "torch")
    assert [each for each in heads if each[1][:1].islower() and not each[1].startswith(names)] == []
