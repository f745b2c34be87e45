"""Finds what hvdlite offers under Horovod's names, by reading its sources. So no list can go out of
date, and nothing is imported."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from hvdlite.compat import names
from hvdlite.compat.names import DIRECTORY

_PACKAGE = Path(DIRECTORY).parents[1]


@dataclass(frozen=True)
class KnownName:
    """A name that exists. `path`: the name without the attributes behind it. `parameters`: those of
    the function, class or method that the whole name means, if they are known and complete."""

    path: str
    is_module: bool = False
    parameters: tuple[str, ...] | None = None


@dataclass(frozen=True)
class MissingName:
    """`module`, one of horovod's names, exists and has no `name`."""

    module: str
    name: str


@dataclass
class _Module:
    """The names that a source file binds at its top level: to a definition, or to an object of
    another module."""

    definitions: dict[str, ast.stmt] = field(default_factory=dict)
    imports: dict[str, tuple[str, str]] = field(default_factory=dict)
    listed: set[str] | None = None  # listed in __all__


def look_up(path: str) -> KnownName | MissingName:
    """Resolves a name such as horovod.torch.allreduce. Takes each attribute of a function, class or
    value to exist, and knows parameters of a class' own methods only."""
    parts = path.split(".")
    reached = parts[0]
    for index, part in enumerate(parts[1:], 2):
        inside = f"{reached}.{part}"
        file = _file_of_horovods(inside)
        if file is not None:
            if _read(file).listed == set():  # names.is_empty(), for a source
                return MissingName(reached, part)
            reached = inside
            continue
        home = _file_of_horovods(reached)
        assert home is not None, reached
        return _binding(home, part, inside, parts[index:]) or MissingName(reached, part)
    return KnownName(path, is_module=True)


def public_names(module: str) -> list[str]:
    """Returns what `from module import *` binds, for one of horovod's modules."""
    file = _file_of_horovods(module)
    return sorted(_bound(file)) if file is not None else []


def _file_of_horovods(name: str) -> Path | None:
    """Returns the source of the alias' module for a module of horovod."""
    target = names.target(name)
    if target is None:
        return _source(Path(DIRECTORY), name)
    return _source(_PACKAGE.parent, ALSO_CALLED.get(target, target))


# Modules that exist under a second name once their package is imported.
ALSO_CALLED = {
    "hvdlite.torch.mpi_ops": "hvdlite.torch",
    "hvdlite.tensorflow.mpi_ops": "hvdlite.tensorflow",
    "hvdlite.tensorflow.keras.callbacks": "hvdlite.keras.callbacks",
    "hvdlite.tensorflow.keras.elastic": "hvdlite.keras.elastic",
}


def _source(root: Path, name: str) -> Path | None:
    path = root.joinpath(*name.split("."))
    for file in (path / "__init__.py", path.with_suffix(".py")):
        if file.is_file():
            return file
    return None


def _binding(file: Path, name: str, path: str, behind: Sequence[str]) -> KnownName | None:
    """`behind`: the attributes that follow the name."""
    if name in _OF_EVERY_MODULE:
        return KnownName(path)
    module = _read(file)
    definition = module.definitions.get(name)
    if definition is not None:
        return KnownName(path, parameters=_parameters_behind(definition, behind))
    if name in module.imports:
        origin, original = module.imports[name]
        source = _source(_PACKAGE.parent, origin)
        if source is None:
            return KnownName(path)  # another package than hvdlite
        if _source(_PACKAGE.parent, f"{origin}.{original}") is not None:
            return KnownName(path, is_module=True)
        return _binding(source, original, path, behind)
    return None


_OF_EVERY_MODULE = {"__doc__", "__file__", "__name__", "__package__", "__path__", "__spec__"}


@cache
def _read(file: Path) -> _Module:
    module = _Module()
    for statement in _top_level(ast.parse(file.read_text(encoding="utf-8")).body):
        if isinstance(statement, (ast.FunctionDef, ast.ClassDef)):
            module.definitions[statement.name] = statement
        elif isinstance(statement, ast.Assign):
            targets = [node for target in statement.targets for node in ast.walk(target)]
            module.definitions |= {
                node.id: statement for node in targets if isinstance(node, ast.Name)
            }
            if any(isinstance(node, ast.Name) and node.id == "__all__" for node in targets):
                module.listed = _listed_by(module, statement.value)
        elif isinstance(statement, ast.AugAssign) and module.listed is not None:
            module.listed |= _listed_by(module, statement.value)
        elif isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            module.definitions[statement.target.id] = statement
            if statement.target.id == "__all__" and statement.value is not None:
                module.listed = _listed_by(module, statement.value)
        elif isinstance(statement, ast.Import):
            for alias in statement.names:
                module.definitions[alias.asname or alias.name.partition(".")[0]] = statement
        elif isinstance(statement, ast.ImportFrom) and statement.module:
            for alias in statement.names:
                if alias.name != "*":
                    module.imports[alias.asname or alias.name] = (statement.module, alias.name)
                elif (source := _source(_PACKAGE.parent, statement.module)) is not None:
                    for name in _bound(source):
                        module.imports.setdefault(name, (statement.module, name))
    return module


def _top_level(body: list[ast.stmt]) -> list[ast.stmt]:
    """Yields the top-level statements, including those inside `if` and `try`."""
    found = []
    for statement in body:
        if isinstance(statement, (ast.If, ast.Try)):
            found += _top_level([*statement.body, *statement.orelse])
        else:
            found.append(statement)
    return found


def _bound(file: Path) -> set[str]:
    module = _read(file)
    if module.listed is not None:
        return module.listed
    return {name for name in (*module.definitions, *module.imports) if not name.startswith("_")}


def _listed_by(module: _Module, added: ast.expr) -> set[str]:
    """Returns the names in `__all__ = [...]` or `__all__ += other.__all__`."""
    if isinstance(added, ast.Attribute) and isinstance(added.value, ast.Name):
        package, name = module.imports[added.value.id]
        source = _source(_PACKAGE.parent, f"{package}.{name}")
        return set() if source is None else _bound(source)
    return set(ast.literal_eval(added))


def _parameters_behind(definition: ast.stmt, behind: Sequence[str]) -> tuple[str, ...] | None:
    """Returns the parameters of a function, of a class, or of the method that is called by way of
    it."""
    if isinstance(definition, ast.FunctionDef) and not behind:
        return _parameters(definition)
    if len(behind) > 1 or not isinstance(definition, ast.ClassDef):
        return None
    name = behind[0] if behind else "__init__"
    for method in definition.body:
        if isinstance(method, ast.FunctionDef) and method.name == name:
            decorators = [getattr(each, "id", "") for each in method.decorator_list]
            parameters = _parameters(method)
            if parameters is None or not {*decorators} <= {"classmethod", "staticmethod"}:
                return None
            return parameters[1:] if "classmethod" in decorators or not behind else parameters
    return None


def _parameters(function: ast.FunctionDef) -> tuple[str, ...] | None:
    arguments = function.args
    if arguments.kwarg is not None or arguments.vararg is not None:
        return None
    return tuple(a.arg for a in [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs])
