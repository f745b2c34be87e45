"""Files in, findings out."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from hvdlite.tools.doctor import (
    checks,
    legacy_keras,
    notebooks,
    reading,
    rewriting,
    scripts,
    surface,
    training,
)
from hvdlite.tools.doctor.findings import Finding

# Files that are not the user's program.
_NOT_INSIDE = {"site-packages", "dist-packages", "node_modules", "__pycache__"}


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
        self._places: dict[str, list[notebooks.Place]] = {}  # of a notebook's lines

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
        if scripts.is_script(Path(file)):
            script = raw.decode(errors="replace")
            self._of_scripts += scripts.findings(file, script)
            self._uses_tf_keras |= legacy_keras.chosen_by_script(script)
            return
        text: str | bytes = raw
        if file.endswith(".ipynb"):
            text, self._places[file] = notebooks.python_of(raw)
        program = reading.read(file, text, surface.public_names)
        self._programs.append(program)
        self._uses_tf_keras |= legacy_keras.chosen_by_program(program)

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
        places = self._places.get(file)
        return (
            f"{file}:cell {places[line - 1].cell}:{places[line - 1].line}"
            if places
            else f"{file}:{line}"
        )

    def _placed(self, finding: Finding) -> Finding:
        places = self._places.get(finding.file)
        if not places:
            return finding
        place = places[finding.line - 1]
        return replace(finding, cell=place.cell, line=place.line)


def _names_horovod(file: str, raw: bytes) -> bool:
    if file.endswith(".ipynb"):
        with suppress(ValueError):  # of its code: in pictures, any letters follow one another
            raw = notebooks.python_of(raw)[0].encode()
    return b"horovod" in raw.lower() or b"hvd" in raw


def fix(paths: Sequence[str]) -> Iterator[tuple[str, rewriting.Changed]]:
    """Changes the imports in Python files, and reports each changed line."""
    for file, _ in _files(paths):
        if not file.endswith(".py"):
            continue
        try:
            new, changed = rewriting.rewritten(Path(file).read_bytes())
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
    for folder, inside, names in os.walk(path):
        inside[:] = sorted(
            name for name in inside if name not in _NOT_INSIDE and not name.startswith(".")
        )
        for name in sorted(names):
            file = Path(folder, name)
            # Reading a pipe would wait.
            if (file.suffix in (".py", ".ipynb") or scripts.is_script(file)) and file.is_file():
                yield str(file)
