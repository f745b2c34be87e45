"""Files in, findings out: Python, notebooks, shell scripts, batch jobs, Dockerfiles and YAML.
`--fix` changes imports."""

from __future__ import annotations

import argparse
import ast
import io
import json
import os
import re
import sys
import tokenize
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from hvdlite.compat import names
from hvdlite.tools.doctor import checks, libraries, reading, surface, training, variables
from hvdlite.tools.doctor.findings import Finding, Kind, to_json, to_text

# Files that are not the user's program.
_NOT_INSIDE = {"site-packages", "dist-packages", "node_modules", "__pycache__"}


def run(arguments: argparse.Namespace) -> int:
    """Runs the command, and returns the exit status."""
    for file, changed in fix(arguments.path) if arguments.fix else ():
        print(f"{file}:{changed.line}: fixed: {changed.before} -> {changed.after}", file=sys.stderr)
    found, unreadable = examine(arguments.path)
    if arguments.json:
        print(to_json(found, unreadable))
    elif found or not unreadable:
        print(to_text(found))
    for sentence in unreadable:
        print(f"hvdlite doctor: {sentence}", file=sys.stderr)
    return 2 if unreadable else int(any(finding.kind is Kind.CHANGE for finding in found))


def examine(paths: Sequence[str]) -> tuple[list[Finding], list[str]]:
    """Returns the findings about files and folders, taken as one program, and a sentence for each
    file that could not be read."""
    examination = _Examination()
    for file, was_named in _files(paths):
        examination.read(file, was_named)
    return examination.findings(), examination.unreadable


class _Examination:
    def __init__(self) -> None:
        self.unreadable: list[str] = []
        self._programs: list[reading.Program] = []
        self._of_scripts: list[Finding] = []
        self._uses_tf_keras = False
        self._places: dict[str, list[CellLine]] = {}  # of a notebook's lines

    def read(self, file: str, was_named: bool) -> None:
        """Reads a file. A file that the user has not named and that says nothing about Horovod need
        not be readable."""
        try:
            raw = Path(file).read_bytes()
        except OSError as error:
            self.unreadable.append(f"{file}: {error.strerror}")
            return
        try:
            self._take(file, raw)
        except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
            if was_named or _names_horovod(file, raw):
                self.unreadable.append(self._why_not(file, error))

    def findings(self) -> list[Finding]:
        of_each = [
            finding
            for program in self._programs
            for finding in checks.of_program(program, self._uses_tf_keras)
        ]
        found = [*of_each, *training.of_programs(self._programs)]
        return [self._placed(finding) for finding in found] + self._of_scripts

    def _take(self, file: str, raw: bytes) -> None:
        if _is_script(Path(file)):
            script = raw.decode(errors="replace")
            self._of_scripts += _findings_of_script(file, script)
            self._uses_tf_keras |= variables.chosen_by_script(script)
            return
        text: str | bytes = raw
        if file.endswith(".ipynb"):
            text, self._places[file] = python_of(raw)
        program = reading.read(file, text, surface.public_names)
        self._programs.append(program)
        self._uses_tf_keras |= variables.chosen_by_program(program)

    def _why_not(self, file: str, error: BaseException) -> str:
        if isinstance(error, SyntaxError):
            return f"{self._where(file, error.lineno)}: not Python 3: {error.msg}"
        if isinstance(error, ValueError):
            return f"{file}: not {'a notebook' if file.endswith('.ipynb') else 'Python'}: {error}"
        # the parser raises MemoryError or RecursionError then
        return f"{file}: nested too deeply to be read"

    def _where(self, file: str, line: int | None) -> str:
        if not line:
            return file
        if not (places := self._places.get(file)):
            return f"{file}:{line}"
        return f"{file}:cell {places[line - 1].cell}:{places[line - 1].line}"

    def _placed(self, finding: Finding) -> Finding:
        places = self._places.get(finding.file)
        return replace(finding, **vars(places[finding.line - 1])) if places else finding


def _names_horovod(file: str, raw: bytes) -> bool:
    if file.endswith(".ipynb"):
        with suppress(ValueError):  # of its code: in pictures, any letters follow one another
            raw = python_of(raw)[0].encode()
    return b"horovod" in raw.lower() or b"hvd" in raw


def fix(paths: Sequence[str]) -> Iterator[tuple[str, Changed]]:
    """Changes the imports in Python files, and reports each changed line."""
    for file, _ in _files(paths):
        if not file.endswith(".py"):
            continue
        try:
            new, changed = rewritten(Path(file).read_bytes())
        except (OSError, SyntaxError, ValueError, MemoryError, RecursionError):
            continue  # examine() reports it
        if changed:
            Path(file).write_bytes(new)
        yield from ((file, each) for each in changed)


def _files(paths: Sequence[str]) -> Iterator[tuple[str, bool]]:
    """Yields files, with whether the user has named the file itself rather than its folder."""
    for path in paths:
        if Path(path).is_dir():
            yield from ((file, False) for file in _inside(path))
        else:
            yield path, True


def _inside(path: str) -> Iterator[str]:
    for folder, inside, files in os.walk(path):
        inside[:] = sorted(
            name for name in inside if name not in _NOT_INSIDE and not name.startswith(".")
        )
        for name in sorted(files):
            file = Path(folder, name)
            # Reading a pipe would wait.
            if (file.suffix in (".py", ".ipynb") or _is_script(file)) and file.is_file():
                yield str(file)


# Shell scripts, batch jobs, Dockerfiles and YAML: commands and variables of Horovod, line by line.

_SUFFIXES = {".sh", ".bash", ".zsh", ".slurm", ".sbatch", ".pbs", ".lsf", ".yaml", ".yml", ".env"}
_NAMES = re.compile(r"(Dockerfile|Containerfile|Makefile)(\..*)?$")

_VARIABLE = re.compile(rf"\b(?:HOROVOD_[A-Z0-9_]+|{variables.LEGACY_KERAS})\b")
_INSTALLS = re.compile(r"\b(?:pip3?|uv|conda|mamba)\b.*\binstall\b.*\bhorovod\b")
_LIGHTNING = re.compile(r"""\b(?:strategy|accelerator)\b["']?\s*[:=]?\s*["']?horovod\b""")
_LAUNCHES = re.compile(r"(?<![\w./-])horovodrun\b")


def _is_script(path: Path) -> bool:
    return path.suffix in _SUFFIXES or _NAMES.match(path.name) is not None


def _findings_of_script(file: str, text: str) -> Iterator[Finding]:
    """Yields findings. Skips comments."""
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith("#"):
            continue
        if _INSTALLS.search(line):
            sentence = "install hvdlite, and `hvdlite compat install` where programs import horovod"
            yield Finding(Kind.CHANGE, file, number, "horovod", sentence)
        if _LIGHTNING.search(line):
            name = "strategy: horovod"
            yield Finding(Kind.CHANGE, file, number, name, libraries.LIGHTNING)
        if _LAUNCHES.search(line):
            sentence = (
                "is hvdliterun, with the same flags; `hvdlite compat install` gives it this name"
            )
            yield Finding(Kind.DIFFERS, file, number, "horovodrun", sentence)
        for name in dict.fromkeys(_VARIABLE.findall(line)):
            yield from variables.about(file, number, name)


# Notebooks: their cells as one Python program, with the place of each line.

# Lines of IPython: %pip install, !ls, name?, and the result of a command: files = !ls
_IPYTHON = re.compile(r"\s*([%!?]|\w+(\.\w+)*\?\??\s*$|\w+\s*=\s*[%!])")
# Those of a line that goes on in the next one, which name? does not.
_GOES_ON = re.compile(r"\s*([%!]|\w+\s*=\s*[%!]).*\\\s*$")
# Cells of other languages. Python follows after %%time and similar lines.
_PYTHON_FOLLOWS = {"%%time", "%%timeit", "%%capture", "%%prun", "%%python", "%%python3"}


@dataclass(frozen=True)
class CellLine:
    """A cell and a line in it, both counted from 1."""

    cell: int
    line: int


def python_of(raw: bytes) -> tuple[str, list[CellLine]]:
    """Returns the program, and the place of each of its lines. Raises ValueError if it is no
    notebook."""
    notebook = json.loads(raw)
    cells = notebook.get("cells") if isinstance(notebook, dict) else None
    if not isinstance(cells, list):
        raise ValueError("it has no cells")
    lines: list[str] = []
    places: list[CellLine] = []
    for number, cell in enumerate(cells, 1):
        if not isinstance(cell, dict) or cell.get("cell_type") != "code":
            continue
        source = cell.get("source", "")
        text = source if isinstance(source, str) else "".join(source)
        inside = _without_ipython(text.splitlines())
        lines += inside
        places += [CellLine(number, line) for line in range(1, len(inside) + 1)]
    return "\n".join(lines), places


def _without_ipython(lines: Sequence[str]) -> list[str]:
    """Leaves a cell that is Python as it is: `% x` may begin a line of an expression."""
    try:
        ast.parse("\n".join(lines))
        return [*lines]
    except SyntaxError:
        pass
    first = next((line.split() for line in lines if line.strip()), [""])[0]
    if first.startswith("%%") and first not in _PYTHON_FOLLOWS:
        return [""] * len(lines)
    kept = []
    goes_on = False
    for line in lines:
        if goes_on:
            goes_on = line.rstrip().endswith("\\")
            kept.append("")
        elif _IPYTHON.match(line):
            goes_on = _GOES_ON.match(line) is not None
            # A statement may be needed there: `if x:` and then `!ls`.
            kept.append(re.sub(r"\S.*", "pass", line))
        else:
            kept.append(line)
    return kept


# `--fix`: changes imports of Horovod's modules to imports of hvdlite's, and nothing else.

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
            and (name := reading.imported_by_call(node))
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
