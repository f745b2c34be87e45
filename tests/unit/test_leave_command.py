"""`hvdlite leave`: which job is meant, and what it says where there is none."""

from __future__ import annotations

import json
import random

import pytest

from hvdlite.rendezvous import documents
from hvdlite.rendezvous.documents import LeaveRequest, Refused
from hvdlite.tools.commands import leave
from hvdlite.tools.commands.cli import main
from hvdlite.tools.commands.leave import CannotLeave, job_of

A, B = "10.0.0.1:4000", "10.0.0.1:5000"
TOKEN = b"7" * 32
INSIDE = {"HVDLITE_MEMBER": "3", "HVDLITE_RENDEZVOUS": B}


@pytest.mark.parametrize(
    ("named", "jobs", "environ", "meant"),
    [
        (None, [A], {}, A),
        (None, [A, A], {}, A),
        (A, [A, B], {}, A),
        (None, [A, B], INSIDE, B),
        (A, [A, B], INSIDE, A),
        (None, [A], {"HVDLITE_RENDEZVOUS": B}, A),
    ],
)
def test_the_job_is_the_one_that_is_named_or_of_this_process_or_the_only_one(
    named: str | None, jobs: list[str], environ: dict[str, str], meant: str
) -> None:
    assert job_of(named, jobs, environ) == meant


@pytest.mark.parametrize(
    ("named", "jobs", "environ", "says"),
    [
        (None, [], {}, "no rank of an elastic job runs on this host"),
        (A, [], {}, "no rank of an elastic job runs on this host"),
        (None, [B, A], {}, f"--job {A} or --job {B}"),
        (B, [A], {}, f"no rank of the job at {B} runs here"),
        (None, [A], INSIDE, f"no rank of the job at {B} runs here"),
    ],
)
def test_a_job_that_is_not_clear_is_an_error(
    named: str | None, jobs: list[str], environ: dict[str, str], says: str
) -> None:
    with pytest.raises(CannotLeave, match=says):
        job_of(named, jobs, environ)


def test_a_host_without_a_rank_is_an_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(leave, "ranks_here", lambda: _Nothing())
    assert main(["leave"]) == 1
    said = capsys.readouterr().err
    assert said == ("hvdlite leave: no rank of an elastic job runs on this host as this user.\n")


def test_only_one_rank_can_be_named() -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["leave", "--rank", "1", "--slot", "1"])


def _written(asked: LeaveRequest) -> bytes:
    return documents.encode_leave_request(asked, "leave/3", TOKEN)


def _read(data: bytes) -> LeaveRequest:
    return documents.decode_leave_request(data, "leave/3", TOKEN, 3)


class _Nothing:
    def __enter__(self) -> list[object]:
        return []

    def __exit__(self, *_: object) -> None:
        pass


@pytest.mark.parametrize(
    "asked", [LeaveRequest(), LeaveRequest("SIGTERM"), LeaveRequest("a disk", 2.5)]
)
def test_a_request_arrives_as_it_was(asked: LeaveRequest) -> None:
    assert _read(_written(asked)) == asked


def test_a_reason_is_one_line_of_bounded_length() -> None:
    asked = documents.leave_request("two\nlines\x1b[31m" + "x" * 1000, 1.0)
    assert asked.reason.startswith("two lines [31mx") and len(asked.reason) == documents.MOST_TEXT
    assert _read(_written(asked)) == asked


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff",
        b"[]",
        b"7",
        b"[" * 100_000,
        json.dumps({"reason": "x"}).encode(),
        json.dumps({"reason": 1, "seconds": None}).encode(),
        json.dumps({"reason": "x" * 201, "seconds": None}).encode(),
        json.dumps({"reason": "a\nb", "seconds": None}).encode(),
        json.dumps({"reason": "", "seconds": -1}).encode(),
        json.dumps({"reason": "", "seconds": True}).encode(),
        json.dumps({"reason": "", "seconds": "1"}).encode(),
        b'{"reason": "", "seconds": NaN}',
        b'{"reason": "", "seconds": Infinity}',
        json.dumps({"reason": "", "seconds": None}).encode() + b" " * 5000,
    ],
)
def test_what_is_no_request_is_refused(data: bytes) -> None:
    with pytest.raises(Refused):
        _read(data)


@pytest.mark.parametrize(
    "data",
    [
        {"reason": 1},
        {"reason": "x" * 201},
        {"reason": "a\nb"},
        {"seconds": -1},
        {"seconds": True},
        {"seconds": "1"},
    ],
)
def test_a_seal_makes_no_request_of_what_is_none(data: dict[str, object]) -> None:
    with pytest.raises(Refused):
        _read(_written(LeaveRequest(**data)))  # type: ignore[arg-type]


def test_a_request_that_is_damaged_is_refused_or_is_one() -> None:
    chance, asked = random.Random(1), LeaveRequest("a disk", 2.5)
    for _ in range(2000):
        data = bytearray(_written(asked))
        for _ in range(chance.randrange(1, 4)):
            data[chance.randrange(len(data))] = chance.randrange(256)
        try:
            found = _read(bytes(data))
        except Refused:
            continue
        assert found == asked  # the same, written in another way
