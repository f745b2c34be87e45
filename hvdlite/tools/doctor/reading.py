"""Reads what a program says about Horovod: imports, names, calls, variables that it sets. Parses
the program and does not run it."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

_MODULE = re.compile(r"horovod(\.\w+)+")
# what stands before the first part that is only known when the program runs: f"horovod.{x}",
# "horovod.%s" % x, "horovod.{}".format(x), "horovod." + x
_BEGINNING = re.compile(r"horovod(\.\w+)*\.((%s|\{\w*\}).*)?")
_IMPORT_ERRORS = {"ImportError", "ModuleNotFoundError", "Exception", "BaseException"}


@dataclass(frozen=True)
class Use:
    """`path`: Horovod's full name, such as horovod.torch.allreduce, whatever the program calls
    it."""

    path: str
    line: int
    guarded: bool = False  # within a try that catches ImportError
    is_import: bool = False


@dataclass(frozen=True)
class HorovodCall:
    """A call of something of horovod's."""

    path: str
    line: int
    node: ast.Call


@dataclass(frozen=True)
class Variable:
    """An environment variable that the program sets."""

    name: str
    line: int
    value: str | None  # None: it is only known when the program runs


@dataclass(frozen=True)
class Mention:
    """A module's full name in a string, or the beginning of one."""

    path: str
    line: int
    begins: bool = False


@dataclass
class Program:
    """One file."""

    file: str
    tree: ast.Module
    uses: list[Use] = field(default_factory=list)
    calls: list[HorovodCall] = field(default_factory=list)
    variables: list[Variable] = field(default_factory=list)
    mentions: list[Mention] = field(default_factory=list)
    packages: set[str] = field(default_factory=set)  # horovod and hvdlite, if it imports them

    @property
    def is_hvdlites(self) -> bool:
        """Whether it imports hvdlite's adapters and nothing of Horovod's, which it may never have
        used."""
        return self.packages == {"hvdlite"}


def read(file: str, text: str | bytes, star: Callable[[str], list[str]]) -> Program:
    """Parses a file. Raises SyntaxError or ValueError if it is not Python. `star`: the names that
    `from module import *` binds."""
    program = Program(file, ast.parse(text, filename=file))
    _Reader(program, star).visit(program.tree)
    return program


def horovods_name(module: str) -> str | None:
    """Returns the module's name in Horovod, for a module of Horovod or an adapter of hvdlite; None
    for all others."""
    top, _, rest = module.partition(".")
    if top == "hvdlite" and rest.partition(".")[0] in ("torch", "tensorflow", "keras"):
        return f"horovod.{rest}"
    return module if top == "horovod" else None


def imported_by_call(node: ast.AST) -> str | None:
    """Returns the argument of a call of import_module(), of any module."""
    if not isinstance(node, ast.Call) or not node.args:
        return None
    return _constant(node.args[0]) if last_name(node) == "import_module" else None


def last_name(node: ast.AST) -> str:
    """Returns `f` for f, a.b.f, f() and a.b.f(), and "" for other expressions."""
    while isinstance(node, ast.Call):
        node = node.func
    return str(getattr(node, "attr", getattr(node, "id", "")))


class _Reader(ast.NodeVisitor):
    """Follows names through the file from top to bottom. It does not distinguish scopes."""

    def __init__(self, program: Program, star: Callable[[str], list[str]]) -> None:
        self._program = program
        self._star = star
        self._meaning: dict[str, str] = {}  # the program's names for objects of horovod
        self._guarded = False
        self._followed: set[int] = set()  # strings whose import was read
        self._imports_by_name = any(
            isinstance(node, ast.Call) and last_name(node) in ("import_module", "__import__")
            for node in ast.walk(program.tree)
        )

    # --- imports

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            module = self._horovods_name(alias.name)
            if module is None:
                continue
            self._note(module, node, is_import=True)
            if alias.asname:
                self._meaning[alias.asname] = module
            elif alias.name.startswith("horovod"):
                self._meaning["horovod"] = "horovod"

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        if node.level or node.module is None:
            return
        # `from hvdlite import torch` counts as well.
        for alias in node.names:
            module = self._horovods_name(
                f"{node.module}.{alias.name}" if node.module == "hvdlite" else node.module
            )
            if module is None:
                continue
            if node.module == "hvdlite":
                path = module
            elif alias.name == "*":
                self._note(module, node, is_import=True)
                self._meaning |= {name: f"{module}.{name}" for name in self._star(module)}
                continue
            else:
                path = f"{module}.{alias.name}"
            self._note(path, node, is_import=True)
            self._meaning[alias.asname or alias.name] = path

    def visit_Try(self, node: ast.Try) -> None:
        before, catches = self._guarded, any(_catches_import_errors(h) for h in node.handlers)
        self._guarded = before or catches
        for statement in node.body:
            self.visit(statement)
        self._guarded = before
        for other in (*node.handlers, *node.orelse, *node.finalbody):
            self.visit(other)

    # --- uses

    def visit_Attribute(self, node: ast.Attribute) -> None:
        path = self._path(node)
        if path is None:
            self.generic_visit(node)
        else:
            self._note(path, node)

    def visit_Name(self, node: ast.Name) -> None:
        path = self._path(node)
        if path is not None and isinstance(node.ctx, ast.Load):
            self._note(path, node)

    def visit_Assign(self, node: ast.Assign) -> None:
        self.visit(node.value)
        for target in node.targets:
            if isinstance(target, ast.Subscript) and last_name(target.value) == "environ":
                self._note_variable(target.slice, node.value, node)
            path = self._path(node.value) or self._imported(node.value)
            if isinstance(target, ast.Name) and path is not None:
                self._meaning[target.id] = path
            self.visit(target)

    def visit_Call(self, node: ast.Call) -> None:
        path = self._path(node.func)
        if path is not None:
            self._program.calls.append(HorovodCall(path, node.lineno, node))
        imported = self._imported(node)
        if imported is not None:
            self._followed.add(id(node.args[0]))
            self._note(imported, node, is_import=True)
        named = _constant(node.args[1]) if len(node.args) > 1 else None
        if isinstance(node.func, ast.Name) and node.func.id == "getattr" and named is not None:
            owner = self._path(node.args[0])
            if owner is not None and len(node.args) == 2:
                self._note(f"{owner}.{named}", node)
        for key, value in _set_in_environment(node):
            self._note_variable(key, value, node)
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        if not isinstance(node.value, str) or id(node) in self._followed:
            return
        if _MODULE.fullmatch(node.value):
            self._program.mentions.append(Mention(node.value, node.lineno))
        elif self._imports_by_name and _BEGINNING.fullmatch(node.value):
            self._program.mentions.append(Mention(node.value, node.lineno, begins=True))

    # --- details

    def _path(self, node: ast.expr) -> str | None:
        if isinstance(node, ast.Name):
            return self._meaning.get(node.id)
        if isinstance(node, ast.Attribute):
            owner = self._path(node.value)
            return None if owner is None else f"{owner}.{node.attr}"
        return None

    def _imported(self, node: ast.expr) -> str | None:
        """Returns the module that importlib.import_module("horovod...") or __import__ returns."""
        name = imported_by_call(node)
        return self._horovods_name(name) if name else None

    def _horovods_name(self, module: str) -> str | None:
        name = horovods_name(module)
        if name is not None:
            self._program.packages.add(module.partition(".")[0])
        return name

    def _note(self, path: str, node: ast.AST, is_import: bool = False) -> None:
        line: int = getattr(node, "lineno", 0)
        self._program.uses.append(Use(path, line, self._guarded, is_import))

    def _note_variable(self, key: ast.expr, value: ast.expr, node: ast.AST) -> None:
        name = _constant(key)
        if name is not None:
            line: int = getattr(node, "lineno", 0)
            self._program.variables.append(Variable(name, line, _constant(value)))


def _constant(node: ast.AST) -> str | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def _catches_import_errors(handler: ast.ExceptHandler) -> bool:
    if handler.type is None:
        return True
    return any(isinstance(n, ast.Name) and n.id in _IMPORT_ERRORS for n in ast.walk(handler.type))


def _set_in_environment(call: ast.Call) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Returns the keys and values in os.environ.setdefault(key, ...), os.putenv(key, ...),
    os.environ.update({key: ...}, key=...)."""
    if not isinstance(call.func, ast.Attribute):
        return
    method, of_environ = call.func.attr, last_name(call.func.value) == "environ"
    if (method == "setdefault" and of_environ) or method == "putenv":
        if len(call.args) == 2:
            yield call.args[0], call.args[1]
    elif method == "update" and of_environ:
        for argument in call.args:
            if isinstance(argument, ast.Dict):
                pairs = zip(argument.keys, argument.values, strict=True)
                yield from ((key, value) for key, value in pairs if key is not None)
        named = (keyword for keyword in call.keywords if keyword.arg)
        yield from ((ast.Constant(keyword.arg), keyword.value) for keyword in named)
