"""Fuzz targets for the documents of an elastic job: report, request, news and assignment.

    python tests/fuzz/documents.py TARGET SECONDS [FOLDER]

Any bytes are refused by `Refused`, or they are a document that comes back as it was written. No
changed report or request has the seal of its member. An input that takes the decoder along a new
pair of lines is kept, in the folder too, and is changed further.
"""

from __future__ import annotations

import hashlib
import json
import random
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any
from unittest import mock

from hvdlite.rendezvous import documents, fields
from hvdlite.rendezvous.documents import (
    Accusation,
    Assignment,
    Cause,
    DriverNotice,
    Entry,
    LeavingMember,
    Refused,
    Report,
    Role,
)

TOKEN = bytes(range(32))
MEMBER, GENERATION = 7, 3
REPORT = Report(
    MEMBER, GENERATION, position=1200, whole=True, copy=1100, broken=True,
    accused=(Accusation(4, Cause.SILENCE), Accusation(5, Cause.CLOSED)),
    alike=(("layer.weight", "float32[3]"),), fingerprints=(("layer.weight", "a1"), ("größe", "b2")),
)  # fmt: skip
NOTICE = DriverNotice(
    9, GENERATION, broken=True, lost=(4,), ready=(8, 9),
    leaving=(LeavingMember(5, 29.5, "SIGTERM"),), stop=True,
)  # fmt: skip
ASSIGNMENT = Assignment(
    GENERATION + 1,
    members=(
        Entry(7, "node1", 1, Role.KEEP),
        Entry(5, "node1", 0, Role.RECEIVE),
        Entry(9, "node2", 0, Role.RECEIVE, newcomer=True),
    ),
    position=1200,
    source=7,
    answers=9,
    nonce="0123456789abcdef" * 2,
    patience=5,
)


def _read_report(data: bytes) -> Report:
    return documents.decode_report(data, TOKEN, MEMBER, GENERATION)


def _write_report(report: Report) -> bytes:
    return documents.encode_report(report, TOKEN)


REQUEST, KEY = documents.LeaveRequest("a disk, größe", 2.5), f"{documents.LEAVE}/{MEMBER}"


def _read_request(data: bytes) -> documents.LeaveRequest:
    return documents.decode_leave_request(data, KEY, TOKEN, MEMBER)


def _write_request(asked: documents.LeaveRequest) -> bytes:
    return documents.encode_leave_request(asked, KEY, TOKEN)


@dataclass(frozen=True)
class Target:
    example: Any
    write: Callable[[Any], bytes]
    read: Callable[[bytes], Any]

    def written(self) -> bytes:
        return self.write(self.example)


TARGETS = {
    "report": Target(REPORT, _write_report, _read_report),
    "request": Target(REQUEST, _write_request, _read_request),
    "notice": Target(NOTICE, documents.encode_notice, documents.decode_notice),
    "assignment": Target(ASSIGNMENT, documents.encode_assignment, documents.decode_assignment),
}


def without_seals() -> Any:
    """All that seals protect is read, too."""
    return mock.patch.object(fields.hmac, "compare_digest", lambda *_: True)


def try_bytes(target: Target, data: bytes) -> bool:
    """Whether they are refused. Raises what is a finding."""
    try:
        read = target.read(data)
    except Refused:
        return True
    assert target.read(target.write(read)) == read, "it does not come back as it was"
    if isinstance(read, Report | documents.LeaveRequest) and read != target.example:
        seal = json.loads(target.write(read))["seal"]
        assert json.loads(data)["seal"] != seal, "what was changed has its member's seal"
    return False


# How inputs are changed.

HOSTILE = (
    None, True, False, -1, 0, 1, 5, 7, "receive", "silence", 1 << 53, 1 << 62, 0.5, -1.0,
    1e308, "", "keep", "\ud800", "\x00", "x" * 2000, [], {}, [[[]]], {"a": 1},
)  # fmt: skip


def mutated(rng: random.Random, data: bytes) -> bytes:
    """Bytes changed, left out, doubled or exchanged with others of the document."""
    found = bytearray(data)
    for _ in range(rng.randint(1, 4)):
        at, length = rng.randrange(len(found) + 1), rng.randint(0, 8)
        piece = rng.choice([b"", rng.randbytes(length), bytes(found[at : at + length]) * 2])
        to = rng.randrange(len(found) + 1)
        found[to : to + rng.randint(0, length)] = piece
    return bytes(found)


def with_another_value(rng: random.Random, data: bytes) -> bytes:
    """JSON in which some value is another one, or is missing or doubled."""
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        return mutated(rng, data)
    at: Any = document
    while isinstance(at, dict | list) and at:
        key = rng.choice(list(at)) if isinstance(at, dict) else rng.randrange(len(at))
        if isinstance(at[key], dict | list) and at[key] and rng.random() < 0.7:
            at = at[key]
            continue
        way = rng.random()
        if way < 0.1:
            del at[key]
        elif way < 0.2 and isinstance(at, list):
            at.append(at[key])
        else:
            at[key] = rng.choice(HOSTILE)
        break
    return json.dumps(document).encode()


def changed(rng: random.Random, data: bytes) -> bytes:
    way = rng.random()
    if way < 0.05:
        return rng.randbytes(rng.randint(0, 200))
    return (mutated if way < 0.4 else with_another_value)(rng, data)


# Which lines of the decoder an input reaches.


DECODERS = (documents.__file__, fields.__file__, documents.__file__)


class Paths:
    """Pairs of lines of the decoder, one behind the other, that any input has reached."""

    def __init__(self) -> None:
        self.known: set[tuple[int, int]] = set()
        self._line = 0
        self._new = False

    def tries_new(self, call: Callable[[], object]) -> bool:
        self._line, self._new = 0, False
        before = sys.gettrace()
        sys.settrace(self._enter)
        try:
            call()
        finally:
            sys.settrace(before)
        return self._new

    def _enter(self, frame: FrameType, event: str, argument: Any) -> Any:
        return self._at if frame.f_code.co_filename in DECODERS else None

    def _at(self, frame: FrameType, event: str, argument: Any) -> Any:
        line = hash((frame.f_code.co_filename, frame.f_lineno))
        pair = self._line, line
        if pair not in self.known:
            self.known.add(pair)
            self._new = True
        self._line = line
        return self._at


TRACED = 0.2  # of the inputs: tracing takes ten times as long as reading


class Finding(AssertionError):
    def __init__(self, data: bytes) -> None:
        super().__init__(f"{data!r:.2000}")
        self.data = data


@dataclass
class Result:
    runs: int = 0
    refused: int = 0
    paths: int = 0


def fuzz(kind: str, rng: random.Random, inputs: list[bytes], more: Iterator[bool]) -> Result:
    """As long as `more` says so. `inputs` are tried first; those that lead on are appended."""
    target, paths, result = TARGETS[kind], Paths(), Result()
    inputs.append(target.written())
    first = list(inputs)
    with without_seals():
        while next(more, False):
            known = bool(first)
            data = first.pop() if first else changed(rng, rng.choice(inputs))

            def attempt(data: bytes = data) -> None:
                result.refused += try_bytes(target, data)

            try:
                if not known and rng.random() >= TRACED:
                    attempt()
                elif paths.tries_new(attempt) and not known:
                    inputs.append(data)
            except Exception as error:
                raise Finding(data) from error
            result.runs += 1
    result.paths = len(paths.known)
    return result


def _until(end: float) -> Iterator[bool]:
    while time.monotonic() < end:
        yield True


def main(kind: str, seconds: str, folder: str = "") -> None:
    corpus = Path(folder) if folder else None
    inputs = [path.read_bytes() for path in sorted(corpus.iterdir())] if corpus else []
    there = len(inputs)
    try:
        result = fuzz(kind, random.Random(), inputs, _until(time.monotonic() + float(seconds)))
    except Finding as finding:
        found = Path(f"{kind}-crash-{hashlib.sha256(finding.data).hexdigest()[:16]}")
        if corpus is not None:
            found = corpus.parent.parent / found
        found.write_bytes(finding.data)
        print(f"found something: {found}")
        raise
    if corpus is not None:
        for data in inputs[there:]:
            (corpus / hashlib.sha256(data).hexdigest()[:16]).write_bytes(data)
    print(f"number_of_executed_units: {result.runs}")
    print(f"{result.refused} refused, {result.paths} pairs of lines, {len(inputs)} inputs kept")


if __name__ == "__main__":
    main(*sys.argv[1:])
