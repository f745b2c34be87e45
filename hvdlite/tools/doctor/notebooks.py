"""Turns a notebook's cells into one Python program, with the place of each line."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass

# Lines of IPython: %pip install, !ls, name?, and the result of a command: files = !ls
_IPYTHON = re.compile(r"\s*([%!?]|\w+(\.\w+)*\?\??\s*$|\w+\s*=\s*[%!])")
# Those of a line that goes on in the next one, which name? does not.
_GOES_ON = re.compile(r"\s*([%!]|\w+\s*=\s*[%!]).*\\\s*$")
# Cells of other languages. Python follows after %%time and similar lines.
_PYTHON_FOLLOWS = {"%%time", "%%timeit", "%%capture", "%%prun", "%%python", "%%python3"}


@dataclass(frozen=True)
class Place:
    """A cell and a line in it, both counted from 1."""

    cell: int
    line: int


def python_of(raw: bytes) -> tuple[str, list[Place]]:
    """Returns the program, and the place of each of its lines. Raises ValueError if it is no
    notebook."""
    notebook = json.loads(raw)
    cells = notebook.get("cells") if isinstance(notebook, dict) else None
    if not isinstance(cells, list):
        raise ValueError("it has no cells")
    lines: list[str] = []
    places: list[Place] = []
    for number, cell in enumerate(cells, 1):
        if not isinstance(cell, dict) or cell.get("cell_type") != "code":
            continue
        source = cell.get("source", "")
        text = source if isinstance(source, str) else "".join(source)
        inside = _without_ipython(text.splitlines())
        lines += inside
        places += [Place(number, line) for line in range(1, len(inside) + 1)]
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
