"""Says what an environment variable of Horovod means with hvdlite, and whether a program or the
script that starts it chooses tf_keras instead of Keras 3."""

from __future__ import annotations

import re
from collections.abc import Iterator

from hvdlite.base import knobs
from hvdlite.tools.doctor import advice
from hvdlite.tools.doctor.findings import Finding, Kind
from hvdlite.tools.doctor.reading import Program

_KNOWN = {name for knob in knobs.KNOBS for name in knob.environment}


def about(file: str, line: int, name: str) -> Iterator[Finding]:
    """Yields findings. Ignores variables that have nothing to do with Horovod."""
    kind = Kind.DIFFERS
    if name in _KNOWN:
        kind, sentence = Kind.WORKS, "is read by hvd.init(); docs/reference/knobs.md"
    elif name in advice.ALSO_WORK:
        kind, sentence = Kind.WORKS, advice.ALSO_WORK[name]
    elif name in advice.LAUNCHERS:
        sentence = advice.LAUNCHERS[name]
    elif name in advice.NO_EFFECT:
        sentence = f"has no effect: {advice.NO_EFFECT[name]}"
    elif name.startswith("HOROVOD_"):
        sentence = "has no effect: neither Horovod 0.28.1 nor hvdlite reads it"
    else:
        return
    yield Finding(kind, file, line, name, sentence)


# The variable that chooses tf_keras.

LEGACY_KERAS = "TF_USE_LEGACY_KERAS"

#: as TensorFlow reads the variable
_YES = ("1", "true", "True")

# NAME=1, NAME: "1", Docker's ENV NAME 1, and the two lines of Kubernetes, name: NAME and value: "1"
_IN_SCRIPT = re.compile(
    rf"""\b{LEGACY_KERAS}\b["']?(?:\s*[=:]\s*|\s+(?:value:\s*)?)["']?(?:{"|".join(_YES)})\b"""
)


def chosen_by_program(program: Program) -> bool:
    """Takes a value that is only known when the program runs for a yes."""
    return any(
        variable.name == LEGACY_KERAS and variable.value in (None, *_YES)
        for variable in program.variables
    )


def chosen_by_script(text: str) -> bool:
    lines = (line for line in text.splitlines() if not line.lstrip().startswith("#"))
    return _IN_SCRIPT.search("\n".join(lines)) is not None
