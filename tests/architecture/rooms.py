"""What `scripts/house` counts: files, rooms, importers and maps of the source tree.

A module is a room of its own if two modules import it, or it has 120 lines, or it is an entry
point (something names it: a command, a page of docs/, an entry point of the package, an import by
name), or it is a pure decider on architecture.md's list. Every other module is a closet, a section
of its only importer.
"""

from __future__ import annotations

import ast
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from imports import circles, needed

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "hvdlite"
#: Where Python finds the package `horovod`: its files are named by Horovod.
ALIAS = PACKAGE / "compat" / "path"
LINES_OF_A_ROOM = 120
#: A package of fewer modules says in a sentence what it is.
MODULES_WITHOUT_A_MAP = 3


@cache
def modules() -> dict[str, Path]:
    """Each module of hvdlite by its name, without the alias."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        if not path.is_relative_to(ALIAS):
            parts = path.relative_to(ROOT).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def lines(path: Path) -> int:
    return len(path.read_text().splitlines())


def root_rooms() -> list[str]:
    """Folders and files of hvdlite/ itself. `exceptions` and `__init__` belong to base, and `_core`
    stands for the native module."""
    found = {path.relative_to(PACKAGE).parts[0] for path in modules().values()}
    return sorted(found - {"__init__.py", "exceptions.py", "_core.py"})


@cache
def importers() -> dict[str, set[str]]:
    """Who imports each module. The alias counts as one that does."""
    found: dict[str, set[str]] = defaultdict(set)
    for path in PACKAGE.rglob("*.py"):
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        for module in needed(path, modules()):
            if module != name:
                found[module].add(name)
    return dict(found)


@cache
def named() -> str:
    """All texts that may name a module: strings of the code, pages for users, the metadata."""
    texts = [(ROOT / "pyproject.toml").read_text()]
    texts += needed(ROOT / "hvdlite_torch_backend.py", modules())  # what `import torch` loads
    pages = [*(ROOT / "docs" / "guides").rglob("*.md"), *(ROOT / "docs" / "start").rglob("*.md")]
    texts += [page.read_text() for page in [*pages, *(ROOT / "docs" / "reference").rglob("*.md")]]
    for path in PACKAGE.rglob("*.py"):
        texts += _strings(ast.parse(path.read_text()))
    return "\n".join(texts)


def _strings(tree: ast.Module) -> Iterator[str]:
    """Those of the code: a docstring names modules for readers."""
    prose = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef))
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in prose:
            yield node.value


@cache
def deciders() -> set[str]:
    """The pure modules that architecture.md lists, as they stand there: launch/plan, ..."""
    page = (ROOT / "docs" / "how-it-works" / "architecture.md").read_text()
    invariant = page.split("Code that decides is pure")[1].split("\n4. ")[0]
    return set(re.findall(r"`([\w/]+)`", invariant))


@cache
def computed() -> list[re.Pattern[str]]:
    """The names that f-strings of the code stand for, as in import_module(f"hvdlite.{it}.gate")."""
    found = set()
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.JoinedStr):
                text = "".join(
                    str(part.value) if isinstance(part, ast.Constant) else "*"
                    for part in node.values
                )
                if re.fullmatch(r"hvdlite\.[\w.*]+", text):
                    found.add(re.escape(text).replace(r"\*", r"\w+"))
    return [re.compile(each) for each in sorted(found)]


def is_entry_point(name: str) -> bool:
    if name.endswith("__main__") or any(each.fullmatch(name) for each in computed()):
        return True
    return bool(re.search(rf"(?<![\w.]){re.escape(name)}\b", named()))


def is_decider(name: str) -> bool:
    inside = name.removeprefix("hvdlite.").replace(".", "/")
    return any(inside == one or inside.endswith("/" + one) for one in deciders())


def closets() -> list[str]:
    """Modules that should be a section of the one that imports them."""
    return [
        name
        for name, path in modules().items()
        if path.name != "__init__.py"
        and len(importers().get(name, ())) < 2
        and lines(path) < LINES_OF_A_ROOM
        and not is_entry_point(name)
        and not is_decider(name)
    ]


def packages() -> dict[Path, list[str]]:
    """Each folder of hvdlite with its modules and sub-folders."""
    found: dict[Path, list[str]] = {}
    for path in modules().values():
        if path.name == "__init__.py":
            found.setdefault(path.parent, [])
            if path.parent != PACKAGE:
                found.setdefault(path.parent.parent, []).append(path.parent.name)
        else:
            found.setdefault(path.parent, []).append(path.stem)
    return {folder: sorted(names) for folder, names in found.items()}


def map_of(folder: Path) -> list[str]:
    """The names in the map of a package: the words before two spaces at which a line of its
    docstring begins."""
    tree = ast.parse((folder / "__init__.py").read_text())
    text = ast.get_docstring(tree, clean=False) or ""
    return re.findall(r"^ *(\w+)(?:/|\.py)? {2,}\S", text, re.M)


def without_a_map(folder: Path, names: list[str]) -> str:
    """What is wrong with the map of a package; nothing if all is well."""
    rooms = [name for name in names if name != "__main__"]
    if folder == PACKAGE or len(rooms) < MODULES_WITHOUT_A_MAP:
        return ""
    listed = [name for name in map_of(folder) if name != "__main__"]
    if not listed:
        return "has no map"
    wrong = sorted(set(rooms) ^ set(listed)) + [n for n, k in Counter(listed).items() if k > 1]
    text = (folder / "__init__.py").read_text()
    return f"its map differs in {wrong}" if wrong else "" if "START HERE" in text else "START HERE?"


def classes_of_one_name() -> list[str]:
    """Classes of one name in one folder: two meanings for one word."""
    found: dict[tuple[Path, str], list[str]] = defaultdict(list)
    for path in modules().values():
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef):
                found[path.parent, node.name].append(path.stem)
    return [
        f"{folder.relative_to(ROOT)}: {name} in {', '.join(stems)}"
        for (folder, name), stems in sorted(found.items())
        if len(stems) > 1
    ]


def rooms_of_comm() -> dict[str, set[str]]:
    """The rooms of csrc/comm, files of one stem and folders, and which of them each includes."""
    comm = ROOT / "csrc" / "comm"
    found: dict[str, set[str]] = {}

    def room(path: Path) -> str:
        return Path(path.parts[0]).stem

    for path in sorted(comm.rglob("*")):
        if path.suffix not in (".h", ".cc", ".cu", ".def"):
            continue
        here = found.setdefault(room(path.relative_to(comm)), set())
        for target in re.findall(r'^#include "comm/([^"]+)"', path.read_text(), re.M):
            here.add(room(Path(target)))
    return {name: targets - {name} for name, targets in found.items()}


def upward_includes() -> list[set[str]]:
    """Rooms of csrc/comm that include one another in a circle."""
    return circles(rooms_of_comm())
