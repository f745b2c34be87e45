"""Finds whether a program, or the script that starts it, chooses tf_keras instead of Keras 3."""

from __future__ import annotations

import re

from hvdlite.tools.doctor.reading import Program

VARIABLE = "TF_USE_LEGACY_KERAS"

#: as TensorFlow reads the variable
_YES = ("1", "true", "True")

# NAME=1, NAME: "1", Docker's ENV NAME 1, and the two lines of Kubernetes, name: NAME and value: "1"
_IN_SCRIPT = re.compile(
    rf"""\b{VARIABLE}\b["']?(?:\s*[=:]\s*|\s+(?:value:\s*)?)["']?(?:{"|".join(_YES)})\b"""
)


def chosen_by_program(program: Program) -> bool:
    """Takes a value that is only known when the program runs for a yes."""
    return any(
        variable.name == VARIABLE and variable.value in (None, *_YES)
        for variable in program.variables
    )


def chosen_by_script(text: str) -> bool:
    lines = (line for line in text.splitlines() if not line.lstrip().startswith("#"))
    return _IN_SCRIPT.search("\n".join(lines)) is not None
