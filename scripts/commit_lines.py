"""Which commits the lines came from: of each commit since REV the net lines, in today's layout.

A commit's files are compared with those before it, both as today's formatters write them. Merges
are left out: what they join is counted where it was made.
"""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from commit_kinds import KINDS

C_LIKE = (".cc", ".h", ".cu", ".cuh")
NOTHING = "0" * 40


@dataclass
class Change:
    """Of one file: its content before and after, by git's names."""

    path: str
    before: str
    after: str


@dataclass
class Commit:
    name: str
    subject: str
    changes: list[Change] = field(default_factory=list)


def read(git: Callable[..., bytes], rev: str, tops: Iterable[str]) -> list[Commit]:
    """The commits since `rev` with what they change below `tops`."""
    words = ["log", "--no-merges", "--raw", "--no-abbrev", "-M40%", "-l0", "--format=@%h %s"]
    found: list[Commit] = []
    for line in git(*words, f"{rev}..", "--", *tops).decode().splitlines():
        if line.startswith("@"):
            name, _, subject = line[1:].partition(" ")
            found.append(Commit(name, subject))
        elif line.startswith(":"):
            meta, *paths = line.split("\t")
            found[-1].changes.append(Change(paths[-1], *meta.split()[2:4]))
    return found


def lengths(git: Callable[..., bytes], blobs: dict[str, str], settings: Iterable[Path]) -> dict:
    """Lines of each blob in today's layout. `blobs`: to the suffix of its file."""
    with tempfile.TemporaryDirectory() as folder:
        for path in settings:
            (Path(folder) / path.name).write_text(path.read_text())
        for name, suffix in blobs.items():
            (Path(folder) / (name + suffix)).write_bytes(git("cat-file", "blob", name))
        # Half-finished files of old commits are counted as they are.
        subprocess.run(["ruff", "format", "--quiet", "."], cwd=folder, stderr=subprocess.DEVNULL)
        sources = [name + suffix for name, suffix in blobs.items() if suffix in C_LIKE]
        for at in range(0, len(sources), 200):
            subprocess.run(["clang-format", "-i", *sources[at : at + 200]], cwd=folder)
        return {
            name: len((Path(folder) / (name + suffix)).read_text().splitlines())
            for name, suffix in blobs.items()
        }


def report(commits: list[Commit], counted: Callable[[str], bool], lines: dict[str, int]) -> None:
    """Sums by kind, and below each kind its commits. `counted`: whether a path is."""
    kind_of = {name: kind for kind, names in KINDS.items() for name in names.split()}
    sums: dict[str, list[int]] = {kind: [0, 0, 0] for kind in (*KINDS, "other")}
    rows: dict[str, list[str]] = {kind: [] for kind in sums}
    for commit in commits:
        gain = [0, 0]
        for change in commit.changes:
            if counted(change.path):
                is_test = change.path.startswith("tests")
                gain[is_test] += lines.get(change.after, 0) - lines.get(change.before, 0)
        kind = kind_of.get(commit.name[:8], "other")
        sums[kind] = [sum(pair) for pair in zip(sums[kind], (*gain, 1), strict=True)]
        if any(gain):
            rows[kind].append(f"    {gain[0]:+6} {gain[1]:+6}  {commit.name[:8]} {commit.subject}")
    for kind, (product, tests, count) in sums.items():
        print(f"{kind}: product {product:+}, tests {tests:+}, {count} commits")
        print("\n".join(row[:110] for row in rows[kind]))
    product, tests = (sum(each[i] for each in sums.values()) for i in (0, 1))
    print(f"all: product {product:+}, tests {tests:+}")
