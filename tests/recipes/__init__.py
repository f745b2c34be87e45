"""The recipes of CONTRIBUTING.md, followed to the letter: what an example of each changes, place by
place and in the order of the recipe. tests/architecture/test_recipes.py makes these changes in a
copy of the tree and runs what the recipe names.

    knob         HVDLITE_LAUNCH_NOTE, a line that hvdliterun prints
    compressor   rowmeans, which sends the mean of each row of a matrix
    launcher     flux run, whose ranks are on one host
    collective   portion, the reducescatter under another name; its copy of the core is built
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Insert:
    """`text` behind `after`, which stands in the file once."""

    path: str
    after: str
    text: str

    def apply(self, root: Path) -> None:
        file = root / self.path
        before = file.read_text()
        found = before.count(self.after)
        assert found == 1, f"{self.path}: {self.after!r} stands there {found} times"
        file.write_text(before.replace(self.after, self.after + self.text))


@dataclass(frozen=True)
class New:
    """A new file."""

    path: str
    text: str

    def apply(self, root: Path) -> None:
        file = root / self.path
        assert not file.exists(), self.path
        file.write_text(self.text)


@dataclass(frozen=True)
class Several:
    """Changes of one place."""

    changes: tuple[Insert, ...]

    @property
    def path(self) -> str:
        (path,) = {change.path for change in self.changes}
        return path

    def apply(self, root: Path) -> None:
        for change in self.changes:
            change.apply(root)


@dataclass(frozen=True)
class Limits:
    """FILES and LINES of tests/architecture/test_rooms.py, raised to what there is now; and the
    names of new closets."""

    closets: str = ""
    path: str = "tests/architecture/test_rooms.py"

    def apply(self, root: Path) -> None:
        package, alias = root / "hvdlite", root / "hvdlite" / "compat" / "path"
        files = [p for p in package.rglob("*.py") if not p.is_relative_to(alias)]
        lines = sum(len(p.read_text().splitlines()) for p in files)
        text = (root / self.path).read_text()
        for name, number in {"FILES": len(files), "LINES": lines}.items():
            text, found = re.subn(rf"^{name} = [\d_]+$", f"{name} = {number}", text, flags=re.M)
            assert found == 1
        (root / self.path).write_text(text)
        if self.closets:
            Insert(self.path, "CLOSETS = HOROVODS | {\n", self.closets).apply(root)


@dataclass(frozen=True)
class Written:
    """A page that a command of the recipe writes."""

    path: str
    command: tuple[str, ...]

    def apply(self, root: Path) -> None:
        """The test runs the command."""


Change = Insert | New | Several | Limits | Written


def apply(changes: Sequence[Change], root: Path) -> None:
    for change in changes:
        change.apply(root)
