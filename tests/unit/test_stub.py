"""The stub tells type checkers what the native module offers: neither more nor less."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import hvdlite


def test_the_stub_names_what_the_native_module_has() -> None:
    core = pytest.importorskip("hvdlite._core", reason="the native core is not built here")
    tree = ast.parse((Path(hvdlite.__file__).parent / "_core.pyi").read_text())
    stub = {node.name for node in tree.body if isinstance(node, (ast.FunctionDef, ast.ClassDef))}
    assert stub == {name for name in dir(core) if not name.startswith("_")}


def test_every_public_name_exists_and_is_documented() -> None:
    pytest.importorskip("hvdlite._core", reason="the native core is not built here")
    for name in hvdlite.__all__:
        value = getattr(hvdlite, name)
        if callable(value):
            assert value.__doc__, f"hvdlite.{name} has no docstring"


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'allreduc'"):
        hvdlite.allreduc  # noqa: B018
