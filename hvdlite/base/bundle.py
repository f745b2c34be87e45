"""The files of a bundle: what each rank writes about itself when its job is stuck or
fails, or when a user asks.

DIR/hvdlite-4f2a90c1d3e7/stall.rank0.json
                         stall.rank1.json
                         failure.rank0.json
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, TypeVar

from hvdlite.base import untrusted, variables

T = TypeVar("T")

# Of several events, `hvdlite explain` shows the first one: a failure may be a stall's consequence.
EVENTS = ("stall", "failure", "asked")
FORMAT = 1
MOST_RANKS = 1 << 20
_MOST_BYTES = 128 << 20

_FILE = re.compile(r"(stall|failure|asked)\.rank(\d+)\.json")
_FOLDER = "hvdlite-"


@dataclass(frozen=True)
class Stack:
    """One thread; its lines as in a traceback, outermost call first."""

    name: str
    main: bool
    lines: list[str]


@dataclass(frozen=True)
class BundlePart:
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


def decode(data: bytes) -> BundlePart:
    """The reverse of encode(). Raises ValueError if it is no part of a bundle."""
    found = untrusted.parsed(data)
    if not isinstance(found, dict) or found.pop("format", None) != FORMAT:
        raise ValueError("it is not a file of a bundle, or of another release")
    try:
        stacks = [Stack(**each) for each in found.pop("stacks", [])]
        part = BundlePart(**found, stacks=stacks)
    except TypeError as error:
        raise ValueError(f"it is not a file of a bundle: {error}") from None
    wrong = next((name for name, good in _good(part) if not good), None)
    if wrong is not None:
        raise ValueError(f"it is not a file of a bundle: its {wrong} is none")
    return part


def _good(part: BundlePart) -> Iterator[tuple[str, bool]]:
    """Whether each field is what encode() writes there: bundles come from other people."""
    yield "event", part.event in EVENTS
    for name in ("verdict", "host", "at", "place"):
        yield name, isinstance(getattr(part, name), str)
    yield "size", untrusted.is_whole(part.size, 1, MOST_RANKS)
    yield "rank", untrusted.is_whole(part.rank, 0, part.size - 1)
    yield "pid", untrusted.is_whole(part.pid, 0, 1 << 32)
    yield "stacks", all(_is_stack(stack) for stack in part.stacks)
    yield (
        "operations",
        isinstance(part.operations, list)
        and all(
            isinstance(each, dict) and isinstance(each.get("name"), str) for each in part.operations
        ),
    )
    for name in ("counters", "knobs"):
        yield name, isinstance(getattr(part, name), dict)
    for name in ("environment", "versions"):
        yield name, untrusted.are_texts(getattr(part, name))


def _is_stack(stack: Stack) -> bool:
    return (
        isinstance(stack.name, str)
        and isinstance(stack.lines, list)
        and all(isinstance(line, str) for line in stack.lines)
    )


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


def read(folder: str) -> tuple[list[BundlePart], list[str]]:
    """Returns the parts of a bundle, in the order of events and ranks, and sentences about files
    that cannot be read."""
    parts: list[BundlePart] = []
    complaints: list[str] = []
    for name in sorted(os.listdir(folder)):
        if not _FILE.fullmatch(name):
            continue
        try:
            parts.append(decode(untrusted.read(os.path.join(folder, name), _MOST_BYTES)))
        except (OSError, ValueError) as error:
            complaints.append(f"{name} cannot be read: {error}.")
    return sorted(parts, key=lambda part: (EVENTS.index(part.event), part.rank)), complaints


_SECRET = re.compile(r"SECRET|TOKEN|PASS|KEY|CRED|AUTH", re.I)
# A JSON Web Token, or an address with a user's name or a password in it.
_SECRET_VALUE = re.compile(r"\s*eyJ|.*://[^\s/]*@", re.S)


def without_secrets(named: Mapping[str, T]) -> dict[str, T]:
    """Returns the entries whose names and values do not look like secrets, or lead to one."""
    return {
        name: value
        for name, value in sorted(named.items())
        if not _SECRET.search(name) and not (isinstance(value, str) and _SECRET_VALUE.match(value))
    }


def shown_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables that a bundle shows: those of a list, and no secret."""
    return {
        name: value for name, value in without_secrets(environ).items() if name in variables.SHOWN
    }
