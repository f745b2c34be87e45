"""The checks of a suite as pytest needs them: names, tags and limits, read from the sources.

Frameworks stay where they are: importing all of them takes 15 seconds. So the parameters of a check
have to be known without its framework; of a dict only the keys are looked at. Each job compares the
list with what it has imported (worker.py).
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from checks import SUITES, Listed, cases

_HERE = Path(__file__).resolve().parent
# Modules whose names parameters may use as they are.
_IMPORTED = {"checks", "checks.here"}


class _Keys(ast.NodeTransformer):
    """A dict's keys alone: its values are made of the framework."""

    def visit_Dict(self, node: ast.Dict) -> ast.Dict:
        node.values = [
            value if key is None else ast.Constant(None)
            for key, value in zip(node.keys, node.values, strict=True)
        ]
        return node


class Source:
    """A module of checks, of which no more is computed than is asked for."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._assigned: dict[str, ast.expr] = {}
        self._from: dict[str, tuple[str, str]] = {}
        self._functions: list[tuple[str, ast.Call]] = []
        for node in ast.parse((_HERE / f"{name}.py").read_text()).body:
            self._take(node)

    def _take(self, node: ast.stmt) -> None:
        if isinstance(node, ast.Assign) and isinstance(target := node.targets[0], ast.Name):
            self._assigned[target.id] = node.value
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value:
            self._assigned[node.target.id] = node.value
        elif isinstance(node, ast.ImportFrom):
            self._from.update(
                {
                    alias.asname or alias.name: (node.module or "", alias.name)
                    for alias in node.names
                }
            )
        elif isinstance(node, ast.FunctionDef):
            calls = [each for each in node.decorator_list if isinstance(each, ast.Call)]
            self._functions += [
                (node.name, call) for call in calls if ast.unparse(call.func) == "check"
            ]

    def value(self, name: str) -> Any:
        if name in self._assigned:
            return self._computed(self._assigned[name])
        module, original = self._from.get(name, ("", ""))
        if module in _IMPORTED:
            return getattr(import_module(module), original)
        if module.startswith("checks."):
            return _source(module.removeprefix("checks.")).value(original)
        raise LookupError(
            f"checks/{self._name}.py: the parameters of a check need `{name}`, which is unknown "
            "before its framework is imported"
        )

    def _computed(self, expression: ast.expr) -> Any:
        tree = ast.fix_missing_locations(ast.Expression(_Keys().visit(expression)))
        code = compile(tree, f"checks/{self._name}.py", "eval")
        own = {
            n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
        }
        names = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name)} - own
        return eval(code, {name: self.value(name) for name in names if not hasattr(builtins, name)})

    def listed(self) -> Iterator[Listed]:
        for function, decorator in self._functions:
            given = {k.arg: self._computed(k.value) for k in decorator.keywords if k.arg}
            how = {key: given.pop(key) for key in ("min_ranks", "seconds", "tags") if key in given}
            how["tags"] = frozenset(how.get("tags", ()))
            for name, _ in cases(f"{self._name}.{function}", given):
                yield Listed(name, **how)


@cache
def _source(name: str) -> Source:
    return Source(name)


@cache
def listed(suite: str = "") -> tuple[Listed, ...]:
    """All checks of a suite, in the order in which checks.everything() gives them."""
    return tuple(check for module in SUITES[suite] for check in _source(module).listed())
