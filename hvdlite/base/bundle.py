"""The files of a bundle: what each rank has written about itself when its job was stuck, had failed
or was asked.

    DIR/hvdlite-4f2a90c1d3e7/stall.rank0.json
                             stall.rank1.json
                             failure.rank0.json
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, TypeVar

T = TypeVar("T")

# Of several events, `hvdlite explain` shows the first one: a failure may be a stall's consequence.
EVENTS = ("stall", "failure", "asked")
FORMAT = 1

_FILE = re.compile(r"(stall|failure|asked)\.rank(\d+)\.json")
_FOLDER = "hvdlite-"


@dataclass(frozen=True)
class Stack:
    """One thread; its lines as in a traceback, outermost call first."""

    name: str
    main: bool
    lines: list[str]


@dataclass(frozen=True)
class Part:
    """What one rank has written."""

    event: str
    verdict: str  # which rank is the cause and where it is; empty: the job was only asked
    rank: int
    size: int
    host: str
    pid: int
    at: str  # UTC
    place: str  # of the main thread
    stacks: list[Stack] = field(default_factory=list)
    operations: list[dict[str, Any]] = field(default_factory=list)
    counters: dict[str, Any] = field(default_factory=dict)
    environment: dict[str, str] = field(default_factory=dict)
    knobs: dict[str, Any] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)

    @property
    def file_name(self) -> str:
        return f"{self.event}.rank{self.rank}.json"

    def encode(self) -> bytes:
        return json.dumps({"format": FORMAT, **asdict(self)}, indent=1).encode()


def decode(data: bytes) -> Part:
    """The reverse of encode(). Raises ValueError if it is no part of a bundle."""
    found = json.loads(data)
    if not isinstance(found, dict) or found.pop("format", None) != FORMAT:
        raise ValueError("it is not a file of a bundle, or of another release")
    try:
        stacks = [Stack(**each) for each in found.pop("stacks", [])]
        return Part(**found, stacks=stacks)
    except TypeError as error:
        raise ValueError(f"it is not a file of a bundle: {error}") from None


def folder_name(job: str) -> str:
    """The folder of a job's bundle. `job`: equal on all its ranks, and of no other job."""
    return _FOLDER + job


def folders_in(directory: str) -> list[str]:
    """The bundles in a directory, the newest first; the directory itself, if it is one."""
    names = os.listdir(directory)
    if any(_FILE.fullmatch(name) for name in names):
        return [directory]
    found = [os.path.join(directory, name) for name in names if name.startswith(_FOLDER)]
    return sorted((path for path in found if os.path.isdir(path)), key=os.path.getmtime)[::-1]


def read(folder: str) -> tuple[list[Part], list[str]]:
    """The parts of a bundle, in the order of events and ranks, and sentences about files that
    cannot be read."""
    parts: list[Part] = []
    complaints: list[str] = []
    for name in sorted(os.listdir(folder)):
        if not _FILE.fullmatch(name):
            continue
        try:
            with open(os.path.join(folder, name), "rb") as file:
                parts.append(decode(file.read()))
        except (OSError, ValueError) as error:
            complaints.append(f"{name} cannot be read: {error}.")
    return sorted(parts, key=lambda part: (EVENTS.index(part.event), part.rank)), complaints


_PREFIXES = (
    "HVDLITE_", "HOROVOD_", "OMP_", "MKL_", "NCCL_", "CUDA_", "SLURM_", "OMPI_", "PMI_", "PMIX_",
    "TORCH_", "TF_", "XLA_", "JAX_", "KERAS_", "PYTHON", "LD_", "MALLOC_", "GLIBC_",
)  # fmt: skip
_SECRET = re.compile(r"SECRET|TOKEN|PASS|KEY|CREDENTIAL|AUTH", re.I)


def without_secrets(named: Mapping[str, T]) -> dict[str, T]:
    """What does not sound like a secret, nor like the way to one."""
    return {name: value for name, value in sorted(named.items()) if not _SECRET.search(name)}


def shown_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables that a bundle shows: those of libraries that may matter, and no secret."""
    return {
        name: value
        for name, value in without_secrets(environ).items()
        if name.startswith(_PREFIXES)
    }
