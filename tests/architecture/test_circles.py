"""No module of hvdlite imports itself by way of others, neither at its top nor inside a
function."""

from __future__ import annotations

from pathlib import Path

from imports import circles, needed

ROOT = Path(__file__).resolve().parents[2]


def _modules() -> dict[str, Path]:
    """compat/path is where Python finds the package `horovod`."""
    found = {}
    for path in (ROOT / "hvdlite").rglob("*.py"):
        parts = path.relative_to(ROOT).with_suffix("").parts
        parts = parts[:-1] if parts[-1] == "__init__" else parts
        name = ".".join(parts).removeprefix("hvdlite.compat.path.")
        found[name] = path
    return found


def _arrows() -> dict[str, set[str]]:
    modules = _modules()
    return {module: needed(path, modules) - {module} for module, path in modules.items()}


def test_modules_import_in_no_circle() -> None:
    arrows = _arrows()
    assert len(arrows) > 200 and sum(map(len, arrows.values())) > 400  # or nothing was looked at
    assert circles(arrows) == []


def test_a_circle_is_found() -> None:
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"b"}}) == [{"b", "c"}]
    assert circles({"a": {"a"}, "b": {"a"}}) == [{"a"}]
    assert circles({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == []
