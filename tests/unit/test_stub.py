"""The stub tells type checkers what the native module offers: neither more nor less."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import hvdlite

FOLDER = Path(hvdlite.__file__).parent


def _stub() -> ast.Module:
    return ast.parse((FOLDER / "_core.pyi").read_text())


def _named(nodes: list[ast.stmt]) -> dict[str, ast.stmt]:
    return {node.name: node for node in nodes if isinstance(node, (ast.FunctionDef, ast.ClassDef))}


def test_the_stub_names_what_the_native_module_has() -> None:
    core = pytest.importorskip("hvdlite._core", reason="the native core is not built here")
    assert set(_named(_stub().body)) == {name for name in dir(core) if not name.startswith("_")}


def test_the_stub_names_what_the_module_over_ctypes_has() -> None:
    """With the same parameters, in their order: some are positional."""
    wanted = _named(_stub().body)
    offered: dict[str, ast.stmt | None] = {}
    for path in (FOLDER / "_core.py", *(FOLDER / "core" / "by_ctypes").glob("*.py")):
        tree = ast.parse(path.read_text())
        if path.name == "_core.py":
            imports = [node for node in tree.body if isinstance(node, ast.ImportFrom)]
            offered.update((each.name, None) for node in imports for each in node.names)
            assigned = [node for node in tree.body if isinstance(node, ast.Assign)]
            offered.update((ast.unparse(node.targets[0]), None) for node in assigned)
            offered.update(_named(tree.body))
        else:
            offered.update((k, v) for k, v in _named(tree.body).items() if k in offered)
    assert not wanted.keys() - offered.keys()
    for name, node in offered.items():
        if isinstance(node, ast.FunctionDef) and name in wanted and not node.args.vararg:
            assert _parameters(node) == _parameters(wanted[name]), name


def _parameters(node: ast.stmt) -> list[str]:
    assert isinstance(node, ast.FunctionDef)
    return [each.arg for each in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]


def test_every_public_name_exists_and_is_documented() -> None:
    pytest.importorskip("hvdlite._core", reason="the native core is not built here")
    for name in hvdlite.__all__:
        value = getattr(hvdlite, name)
        if callable(value):
            assert value.__doc__, f"hvdlite.{name} has no docstring"


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'allreduc'"):
        hvdlite.allreduc  # noqa: B018
