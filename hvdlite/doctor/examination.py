"""Files in, findings out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from hvdlite.doctor import checks, reading, surface, training
from hvdlite.doctor.findings import Finding

# Not the user's program.
_NOT_INSIDE = {"site-packages", "dist-packages", "node_modules", "__pycache__"}


def examine(paths: Sequence[str]) -> tuple[list[Finding], list[str]]:
    """The findings about files and folders, taken as one program, and a sentence for each that could not be read."""
    programs, unreadable = [], []
    for file in _files(paths):
        try:
            programs.append(reading.read(file, Path(file).read_bytes(), surface.public_names))
        except OSError as error:
            unreadable.append(f"{file}: {error.strerror}")
        except SyntaxError as error:
            where = f"{file}:{error.lineno}" if error.lineno else file
            unreadable.append(f"{where}: not Python 3: {error.msg}")
        except (MemoryError, RecursionError):  # the parser's ways to say so
            unreadable.append(f"{file}: nested too deeply to be read")
        except ValueError as error:
            unreadable.append(f"{file}: not Python: {error}")
    findings = [finding for program in programs for finding in checks.of_program(program)]
    return [*findings, *training.of_programs(programs)], unreadable


def _files(paths: Sequence[str]) -> Iterator[str]:
    for path in paths:
        if not Path(path).is_dir():
            yield path
            continue
        for file in sorted(Path(path).rglob("*.py")):
            inside = file.relative_to(path).parts[:-1]
            # A pipe would be waited for.
            if file.is_file() and not any(part in _NOT_INSIDE or part.startswith(".") for part in inside):
                yield str(file)
