"""README.md and the home page: their links lead somewhere, their numbers are those of the
benchmarks, and the drawings are what scripts/drawings draws."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
README = ROOT / "README.md"
DOCS = ROOT / "docs"
FRONT = (README, DOCS / "index.md", DOCS / "why.md")


def _prose(page: Path) -> str:
    """A page without its blocks of code."""
    return re.sub(r"^( *)```.*?^\1```$", "", page.read_text(), flags=re.M | re.S)


def _targets(page: Path) -> list[str]:
    text = _prose(page)
    found = re.findall(r"\]\(([^)\s]+)\)", text)
    return found + re.findall(r'(?:href|src|srcset)="([^"]+)"', text)


def _anchors(page: Path) -> set[str]:
    """Of headings, as GitHub and mkdocs make them."""
    heads = re.findall(r"^#+ (.*?)(?: \{ #(\S+) \})?$", _prose(page), re.M)
    slugs = set()
    for words, given in heads:
        plain = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", words)
        slug = re.sub(r"[^\w\- ]", "", plain.lower()).strip().replace(" ", "-")
        slugs.add(given or slug)
    return slugs


@pytest.mark.parametrize("page", FRONT, ids=lambda page: page.name)
def test_every_link_and_picture_is_there(page: Path) -> None:
    targets = _targets(page)
    assert len(targets) > 10
    missing = []
    for target in targets:
        path, _, anchor = target.partition("#")
        assert "://" not in target, f"{target}: the address may change; link to a page"
        there = (page.parent / path).resolve() if path else page
        themes = ("only-light", "only-dark")
        if not there.exists() or (
            anchor and anchor not in themes and anchor not in _anchors(there)
        ):
            missing.append(target)
    assert missing == []


def test_every_picture_has_words_for_those_who_do_not_see_it() -> None:
    for page in [README, *DOCS.rglob("*.md")]:
        for words, target in re.findall(r"!\[([^]]*)\]\(([^)\s]+)\)", _prose(page)):
            assert words.strip(), f"{page}: {target}"


def test_the_readme_is_short() -> None:
    lines = [line for line in README.read_text().splitlines() if line.strip()]
    assert len(lines) <= 96, "about 70 lines, and the program: one screen of a laptop, or two"


def test_the_drawings_are_those_of_the_script() -> None:
    command = [sys.executable, ROOT / "scripts" / "drawings", "--check"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + "run scripts/drawings"


#: A number of the front pages, the page that it links to, and what stands there in a row.
NUMBERS = (
    ("36 ms", "elastic.md", r"^\| 2 ranks \| 20 \| [\d.]+ ms \([\d.]+ ms\) \| 36\.2 ms "),
    ("3.8 s", "elastic.md", r"^\| torchrun, 2 ranks .* \| 3\.76 s \(4\.35 s\) "),
    ("0.24 s", "starting.md", r"^\| hvdliterun -np 2 \| 0\.24 s "),
    ("2.05 s", "starting.md", r"^\| torchrun --nproc-per-node 2 \| 2\.05 s "),
)


@pytest.mark.parametrize("page", FRONT[:2], ids=lambda page: page.name)
def test_the_numbers_are_those_of_the_benchmarks(page: Path) -> None:
    for shown, source, row in NUMBERS:
        assert shown in page.read_text()
        assert re.search(row, (DOCS / "benchmarks" / source).read_text(), re.M), (
            f"{source} has other numbers by now: {page.name} says {shown}"
        )


def _ratios(column: str) -> list[float]:
    """The first table of ratios: two ranks, float32, without SCHED_FIFO."""
    page = (DOCS / "benchmarks" / "index.md").read_text()
    table = page.split("## 2 ranks, nice -18, float32")[1].split("Time divided by")[1]
    rows = [
        line.split("|")[1:-1] for line in table.split("Left out")[0].splitlines() if "|" in line
    ]
    place = [cell.strip() for cell in rows[0]].index(column)
    cells = [row[place].strip() for row in rows[2:]]
    return [float(cell.split()[0]) for cell in cells if cell != "–"]


@pytest.mark.parametrize(
    ("column", "least", "most"), [("gloo", 7, 1000), ("openmpi", 0.9, 2.5), ("mpich", 1.9, 3.9)]
)
def test_multiples_of_the_peers_are_those_of_the_benchmarks(
    column: str, least: float, most: float
) -> None:
    ratios = _ratios(column)
    assert min(ratios) == pytest.approx(least, rel=0.03)
    assert max(ratios) == pytest.approx(most, rel=0.03)


def test_rows_of_the_comparison_are_rows_of_the_benchmarks() -> None:
    """Each number of the table "Numbers" stands on the page that its row links to."""
    table = (DOCS / "why.md").read_text().split("## Numbers")[1].split("\n## ")[0]
    rows = re.findall(r"^\| .* \| ([^|]+) \| ([^|]+) \| \[[^]]+\]\(([^)#]+)\S* \|$", table, re.M)
    assert len(rows) >= 12
    for *numbers, target in rows:
        source = (DOCS / target).read_text()
        for number in numbers:
            value, unit = number.strip("* ").split()
            # In tables of one unit, the unit is not in the cell.
            pattern = rf"\| ({re.escape(value)} {unit}\b|{re.escape(value)} \|)"
            assert re.search(pattern, source), f"{target} has no {number.strip()}"
