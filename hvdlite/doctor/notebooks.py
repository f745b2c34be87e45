"""The Python in a notebook's cells, as one program, and the place of each of its lines."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass

# Of IPython, on a line of its own: %pip install, !ls, name?, and the result of a command: files = !ls
_IPYTHON = re.compile(r"\s*([%!?]|\w+(\.\w+)*\?\??\s*$|\w+\s*=\s*[%!])")
# Cells of other languages; after %%time and its like comes Python.
_PYTHON_FOLLOWS = {"%%time", "%%timeit", "%%capture", "%%prun", "%%python", "%%python3"}


@dataclass(frozen=True)
class Place:
    """Cells are counted from 1, as are their lines."""

    cell: int
    line: int


def python_of(raw: bytes) -> tuple[str, list[Place]]:
    """The program, and where each of its lines stands. ValueError if it is no notebook."""
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
    first = next((line.split() for line in lines if line.strip()), [""])[0]
    if first.startswith("%%") and first not in _PYTHON_FOLLOWS:
        return [""] * len(lines)
    # A statement may have to stand there: `if x:` and then `!ls`.
    return [re.sub(r"\S.*", "pass", line) if _IPYTHON.match(line) else line for line in lines]
