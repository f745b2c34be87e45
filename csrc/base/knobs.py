"""Writes the X-macro list of the C++ config from the table of knobs: python knobs.py FILE. The
build runs it."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parents[2]
TYPES = {
    "bool": "bool",
    "int": "int64_t",
    "float": "double",
    "str": "std::string",
    "choice": "std::string",
}


def _table() -> ModuleType:
    """From the source tree: hvdlite is not built yet, and its base needs nothing that is."""
    sys.path.insert(0, str(ROOT))
    return importlib.import_module("hvdlite.base.knobs")


def _literal(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return repr(value)


def main() -> None:
    lines = ["// Generated from hvdlite/base/knobs.py."]
    for k in _table().KNOBS:
        if k.core:
            row = [
                TYPES[k.type],
                k.field,
                _literal(k.default),
                _literal(k.environment[0]),
                _literal(k.alike),
            ]
            lines.append(f"HVDLITE_KNOB({', '.join(row)})")
    Path(sys.argv[1]).write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
