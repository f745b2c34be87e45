"""What a file of Python imports, at its top and inside its functions, read from its text."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator
from functools import cache
from pathlib import Path


def imported(path: Path) -> set[str]:
    """Modules, and what is taken out of them: `from a import b` is a and a.b. Not what only type
    checkers see."""
    pairs = _pairs(path)
    return {module for module, _ in pairs} | {f"{module}.{name}" for module, name in pairs if name}


def needed(path: Path, modules: Collection[str]) -> set[str]:
    """Which of these modules: `from a import b` needs a.b if that is one, else a."""
    found = {
        f"{module}.{name}" if f"{module}.{name}" in modules else module
        for module, name in _pairs(path)
    }
    return found & set(modules)


@cache
def _pairs(path: Path) -> set[tuple[str, str]]:
    found = set()
    for node in _seen_by_python(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {(alias.name, "") for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {(node.module, alias.name) for alias in node.names}
    return found


def circles(arrows: dict[str, set[str]]) -> list[set[str]]:
    """The sets of modules each of which leads to all others of its set."""
    leads_to = {start: _reached(start, arrows) for start in arrows}
    found: list[set[str]] = []
    for start, reached in leads_to.items():
        circle = {other for other in reached if start in leads_to[other]}
        if circle and circle not in found:
            found.append(circle)
    return found


def _reached(start: str, arrows: dict[str, set[str]]) -> set[str]:
    reached: set[str] = set()
    waiting = list(arrows[start])
    while waiting:
        module = waiting.pop()
        if module not in reached:
            reached.add(module)
            waiting += arrows[module]
    return reached


def _seen_by_python(node: ast.AST) -> Iterator[ast.AST]:
    if (
        isinstance(node, ast.If)
        and isinstance(node.test, ast.Name)
        and node.test.id == "TYPE_CHECKING"
    ):
        return
    yield node
    for child in ast.iter_child_nodes(node):
        yield from _seen_by_python(child)
