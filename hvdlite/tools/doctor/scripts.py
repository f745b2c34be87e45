"""Finds commands and variables of Horovod in shell scripts, batch jobs, Dockerfiles and YAML, line
by line."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from hvdlite.tools.doctor import legacy_keras, libraries, variables
from hvdlite.tools.doctor.findings import Finding, Kind

_SUFFIXES = {".sh", ".bash", ".zsh", ".slurm", ".sbatch", ".pbs", ".lsf", ".yaml", ".yml", ".env"}
_NAMES = re.compile(r"(Dockerfile|Containerfile|Makefile)(\..*)?$")

_VARIABLE = re.compile(rf"\b(?:HOROVOD_[A-Z0-9_]+|{legacy_keras.VARIABLE})\b")
_INSTALLS = re.compile(r"\b(?:pip3?|uv|conda|mamba)\b.*\binstall\b.*\bhorovod\b")
_LIGHTNING = re.compile(r"""\b(?:strategy|accelerator)\b["']?\s*[:=]?\s*["']?horovod\b""")
_LAUNCHES = re.compile(r"(?<![\w./-])horovodrun\b")


def is_script(path: Path) -> bool:
    return path.suffix in _SUFFIXES or _NAMES.match(path.name) is not None


def findings(file: str, text: str) -> Iterator[Finding]:
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
