"""Every name that tests, examples, benchmarks, scripts and pages import from hvdlite exists, also
where a string holds a program or names a module. It reads the sources and imports none of them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from hvdlite.tools.doctor import surface

ROOT = Path(__file__).resolve().parents[2]
# Pages that tell of the past, numbers, and examples of what may be added.
PAST = {ROOT / "docs" / "decisions", ROOT / "docs" / "benchmarks" / "data", ROOT / "tests/recipes"}
FROM = re.compile(
    r"\bfrom (hvdlite(?:\.\w+)*) import (\([^)]*\)|\w+(?: as \w+)?(?:, *\w+(?: as \w+)?)*)"
)
IMPORT = re.compile(r"(?:^|[\s;\"'`])import (hvdlite(?:\.\w+)+)")
RUN = re.compile(r"-m\"?,? *\"?(hvdlite(?:\.\w+)+)")
QUOTED = re.compile(r"[\"'`](hvdlite(?:\.\w+)+)[\"'`]")


def files() -> list[Path]:
    found = [ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
    for folder in ("tests", "examples", "benchmarks", "scripts", "docs"):
        found += [path for path in (ROOT / folder).rglob("*") if path.suffix in (".py", ".md", "")]
    return [
        path
        for path in found
        if path.is_file() and path != Path(__file__) and PAST.isdisjoint(path.parents)
    ]


def imported(text: str) -> Iterator[tuple[str, str]]:
    """Modules, and what is taken out of each; "" for the module itself."""
    text = text.replace("\\n", "\n")
    for module, names in FROM.findall(text):
        for name in re.sub(r"#.*", "", names).strip("()").split(","):
            if name.strip():
                yield module, name.split()[0]
    for pattern in (IMPORT, RUN):
        yield from ((module, "") for module in pattern.findall(text))
    for module in set(QUOTED.findall(text)) - {"hvdlite.h"}:
        rest = ""
        while source(module) is None:
            module, _, rest = module.rpartition(".")
        yield module, rest


def missing(text: str) -> set[str]:
    return {
        f"{module}.{name}".rstrip(".")
        for module, name in imported(text)
        if not exists(module, name)
    }


@cache
def source(module: str) -> Path | None:
    path = ROOT.joinpath(*surface.ALSO_CALLED.get(module, module).split("."))
    files = path / "__init__.py", path.with_suffix(".py"), path.with_suffix(".pyi")
    return next((file for file in files if file.is_file()), None)


@cache
def exists(module: str, name: str) -> bool:
    if source(module) is None:
        return False
    return not name or source(f"{module}.{name}") is not None or name in bound(module)


@cache
def bound(module: str) -> set[str]:
    """The names at the top of a module. One that has __getattr__ also has those of its strings."""
    path = source(module)
    assert path is not None
    tree = ast.parse(path.read_text())
    found = set(_bound(tree.body))
    if "__getattr__" in found:
        texts = [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)]
        found |= {word for text in texts if isinstance(text, str) for word in text.split()}
    return found


def _bound(body: list[ast.stmt]) -> Iterator[str]:
    for statement in body:
        if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield statement.name
        elif isinstance(statement, (ast.Import, ast.ImportFrom)):
            for alias in statement.names:
                if alias.name == "*" and isinstance(statement, ast.ImportFrom):
                    yield from bound(statement.module or "")
                else:
                    yield alias.asname or alias.name.partition(".")[0]
        elif isinstance(statement, (ast.If, ast.Try, ast.With, ast.For)):
            parts = (getattr(statement, name, []) for name in ("body", "orelse", "finalbody"))
            yield from (name for part in parts for name in _bound(part))
            for handler in getattr(statement, "handlers", []):
                yield from _bound(handler.body)
        else:
            for node in ast.walk(statement):
                if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                    yield node.id


def test_every_imported_name_exists() -> None:
    texts = {path: path.read_bytes().decode(errors="replace") for path in files()}
    assert sum(len(list(imported(text))) for text in texts.values()) > 1000
    found = {
        f"{path.relative_to(ROOT)}: {name}"
        for path, text in texts.items()
        for name in missing(text)
    }
    assert found == set()


@pytest.mark.parametrize(
    ("text", "stale"),
    [
        ("from hvdlite.launch import plan, no_such_name as it", {"hvdlite.launch.no_such_name"}),
        (
            "from hvdlite.launch.plan import (\n    assign,\n    gone,  # it\n)",
            {"hvdlite.launch.plan.gone"},
        ),
        ("import hvdlite.no_such_module as hvd", {"hvdlite.no_such_module"}),
        ('PROGRAM = "import hvdlite\\nfrom hvdlite.gone import x\\n"', {"hvdlite.gone.x"}),
        ('[sys.executable, "-m", "hvdlite.gone", "x"]', {"hvdlite.gone"}),
        ('monkeypatch.setattr("hvdlite.launch.plan.gone", 1)', {"hvdlite.launch.plan.gone"}),
        ("from hvdlite import init, gone", {"hvdlite.gone"}),
        ("from hvdlite.torch import DistributedOptimizer, allreduce", set()),
    ],
)
def test_a_stale_name_is_found(text: str, stale: set[str]) -> None:
    assert missing(text) == stale
