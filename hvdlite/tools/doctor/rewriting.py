"""`hvdlite doctor --fix`: changes imports of Horovod's modules to imports of hvdlite's, and nothing
else."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass

from hvdlite.compat import names
from hvdlite.tools.doctor import surface
from hvdlite.tools.doctor.reading import imported_by_call

_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n|$)")  # as Python's parser ends lines


@dataclass(frozen=True)
class Edit:
    """A change of a line. Positions are bytes of UTF-8, as in ast."""

    line: int
    begin: int
    old: str
    new: str


@dataclass(frozen=True)
class Changed:
    line: int
    before: str
    after: str


def rewritten(raw: bytes) -> tuple[bytes, list[Changed]]:
    """Returns the file with hvdlite's imports, and the changed lines. Raises SyntaxError or
    ValueError if it is not Python."""
    encoding, _ = tokenize.detect_encoding(io.BytesIO(raw).readline)
    text = raw.decode(encoding)
    lines = _LINE.findall(text)
    changed: dict[int, str] = {}
    for edit in sorted(_edits(ast.parse(text)), key=lambda e: (e.line, -e.begin)):
        line = changed.get(edit.line, lines[edit.line - 1]).encode()
        end = edit.begin + len(edit.old)
        if line[edit.begin : end] == edit.old.encode():  # not `horovod . torch`
            changed[edit.line] = (line[: edit.begin] + edit.new.encode() + line[end:]).decode()
    told = [Changed(n, lines[n - 1].strip(), after.strip()) for n, after in sorted(changed.items())]
    for number, after in changed.items():
        lines[number - 1] = after
    return "".join(lines).encode(encoding), told


def _edits(tree: ast.Module) -> Iterator[Edit]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            yield from _of_import_from(node)
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if alias.asname and (new := _new_name(alias.name)):
                    yield Edit(alias.lineno, alias.col_offset, alias.name, new)
        elif (
            isinstance(node, ast.Call)
            and (name := imported_by_call(node))
            and (new := _new_name(name))
        ):
            # after the quotation mark
            yield Edit(node.args[0].lineno, node.args[0].col_offset + 1, name, new)
    yield from _of_plain_imports(tree)


def _of_import_from(node: ast.ImportFrom) -> Iterator[Edit]:
    module = node.module or ""
    if node.level or not module.startswith("horovod"):
        return
    found = [surface.look_up(f"{module}.{alias.name}") for alias in node.names if alias.name != "*"]
    if any(isinstance(each, surface.MissingName) for each in found):
        return
    if module == "horovod":
        targets = {_new_name(f"horovod.{alias.name}") for alias in node.names}
        new = "hvdlite" if targets == {f"hvdlite.{alias.name}" for alias in node.names} else None
    else:
        new = _new_name(module)
    if new:
        yield Edit(node.lineno, node.col_offset + len("from "), module, new)


def _of_plain_imports(tree: ast.Module) -> Iterator[Edit]:
    """Of `import horovod.torch`, followed by uses such as horovod.torch.init(): changes all of
    them, or none if a module has another name in hvdlite."""
    nodes = list(ast.walk(tree))
    imported = [
        alias
        for node in nodes
        if isinstance(node, ast.Import)
        for alias in node.names
        if alias.name.partition(".")[0] == "horovod" and not alias.asname
    ]
    same = all(_new_name(a.name) == a.name.replace("horovod", "hvdlite", 1) for a in imported)
    if not (imported and same):
        return
    used = [node for node in nodes if isinstance(node, ast.Name) and node.id == "horovod"]
    places: list[ast.alias | ast.Name] = [*imported, *used]
    for place in places:
        yield Edit(place.lineno, place.col_offset, "horovod", "hvdlite")


def _new_name(module: str) -> str | None:
    """Returns None if hvdlite has no such module, or if only the alias has it."""
    if module.partition(".")[0] != "horovod":
        return None
    found = surface.look_up(module)
    return (
        names.target(module) if isinstance(found, surface.KnownName) and found.is_module else None
    )
