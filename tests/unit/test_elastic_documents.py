"""Documents as they are sent: what is read is what was written, or it is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from elastic_histories import histories, seeded
from fuzz import documents as fuzz_target

from hvdlite.rendezvous.documents import (
    MOST_BYTES,
    Accusation,
    Assignment,
    Cause,
    DriverNotice,
    Entry,
    RankNumbers,
    Refused,
    Report,
    Role,
    decode_assignment,
    decode_notice,
    decode_report,
    encode_assignment,
    encode_notice,
    encode_report,
)

TOKEN = fuzz_target.TOKEN
REPORT = Report(
    member=7,
    generation=3,
    position=1200,
    whole=True,
    copy=1100,
    broken=True,
    accused=(Accusation(4, Cause.SILENCE), Accusation(5, Cause.CLOSED)),
    fingerprints=(("layer.weight", "a1"), ("größe", "b2")),
)
NOTICE, ASSIGNMENT = fuzz_target.NOTICE, fuzz_target.ASSIGNMENT


def _read_report(data: bytes) -> Report:
    return decode_report(data, TOKEN, member=7, generation=3)


WRITTEN: dict[str, tuple[bytes, Callable[[bytes], Any]]] = {
    "report": (encode_report(REPORT, TOKEN), _read_report),
    "notice": (encode_notice(NOTICE), decode_notice),
    "assignment": (encode_assignment(ASSIGNMENT), decode_assignment),
}


def test_what_is_read_is_what_was_written() -> None:
    assert _read_report(encode_report(REPORT, TOKEN)) == REPORT
    newcomer = Report(7, 3, newcomer=True, meets=True)
    assert _read_report(encode_report(newcomer, TOKEN)) == newcomer
    assert decode_notice(encode_notice(NOTICE)) == NOTICE
    assert decode_notice(encode_notice(DriverNotice(1, 1))) == DriverNotice(1, 1)
    assert decode_assignment(encode_assignment(ASSIGNMENT)) == ASSIGNMENT


def test_documents_are_json() -> None:
    fields = json.loads(encode_assignment(ASSIGNMENT))
    assert fields["members"][0] == {
        "member": 7,
        "host": "node1",
        "slot": 1,
        "role": "keep",
        "newcomer": False,
    }


# Reports are sealed with their member's token.


def test_a_report_of_another_token_is_refused() -> None:
    with pytest.raises(Refused, match="not sealed with its token"):
        _read_report(encode_report(REPORT, bytes(32)))


@pytest.mark.parametrize("changed", [{"member": 6}, {"generation": 2}])
def test_a_report_is_refused_below_another_key(changed: dict[str, int]) -> None:
    """A report that is replayed, or copied to where another member's belongs."""
    with pytest.raises(Refused, match="lies where|another generation, 2"):
        _read_report(encode_report(replace(REPORT, **changed), TOKEN))


@pytest.mark.parametrize(
    ("name", "value"),
    [("position", 1201), ("whole", False), ("copy", None), ("leaves", True), ("accused", [])],
)
def test_no_field_of_a_report_can_be_changed(name: str, value: object) -> None:
    fields = {**json.loads(encode_report(REPORT, TOKEN)), name: value}
    with pytest.raises(Refused, match="not sealed"):
        _read_report(json.dumps(fields).encode())


# What is not such a document.


@pytest.mark.parametrize("kind", WRITTEN)
@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"null",
        b"[]",
        b"{}",
        b'"text"',
        b"\x80\x04\x95",  # a pickle
        b"\xff",
        "{\u00e9}".encode(),
        b"[" * MOST_BYTES,
        b'{"a":' * (MOST_BYTES // 5),
        b"9" * MOST_BYTES,
        b"-1e999999",
        b" " * (MOST_BYTES + 1),
        b"NaN",
    ],
    ids=lambda data: f"{data[:12]!r} of {len(data)}",
)
def test_other_bytes_are_refused(kind: str, data: bytes) -> None:
    with pytest.raises(Refused):
        WRITTEN[kind][1](data)


@pytest.mark.parametrize("kind", WRITTEN)
def test_every_field_is_needed_and_has_its_type(kind: str) -> None:
    data, read = WRITTEN[kind]
    fields = json.loads(data)
    for name in fields:
        less = {other: value for other, value in fields.items() if other != name}
        with pytest.raises(Refused, match="expected an object with the fields"):
            read(json.dumps(less).encode())
        for value in ({}, [[]], "\n", -1, 1.5, 1 << 53, "x" * 1001):
            with pytest.raises(Refused):
                read(json.dumps({**fields, name: value}).encode())
    with pytest.raises(Refused, match="expected an object with the fields"):
        read(json.dumps({**fields, "more": 1}).encode())
    with pytest.raises(Refused, match="twice"):
        read(data[:-1] + b"," + data[1:])


@pytest.mark.parametrize("value", ["1", None, -0.5, 1e10, float("nan"), float("inf"), True])
def test_seconds_are_a_number(value: object) -> None:
    fields = json.loads(encode_notice(NOTICE))
    fields["leaving"][0]["seconds"] = value
    with pytest.raises(Refused, match="seconds"):
        decode_notice(json.dumps(fields).encode())


@pytest.mark.parametrize("kind", WRITTEN)
def test_a_document_has_a_mebibyte_at_most(kind: str) -> None:
    data, read = WRITTEN[kind]
    read(data.ljust(MOST_BYTES))
    with pytest.raises(Refused, match="more than the 1048576"):
        read(data.ljust(MOST_BYTES + 1))


def test_a_list_has_as_many_items_as_a_job_has_members_at_most() -> None:
    fields = json.loads(encode_notice(NOTICE))
    most = json.dumps({**fields, "lost": [4] * 65536}).encode()
    assert len(decode_notice(most).lost) == 65536
    with pytest.raises(Refused, match="at most 65536"):
        decode_notice(json.dumps({**fields, "lost": [4] * 65537}).encode())


def test_true_is_no_number() -> None:
    fields = {**json.loads(encode_assignment(ASSIGNMENT)), "position": True}
    with pytest.raises(Refused, match="expected a number"):
        decode_assignment(json.dumps(fields).encode())


KEEPS = Entry(7, "node1", 1, Role.KEEP)


@pytest.mark.parametrize(
    ("assignment", "said"),
    [
        (replace(ASSIGNMENT, members=()), "has members"),
        (replace(ASSIGNMENT, generation=0), "has members and a generation"),
        (replace(ASSIGNMENT, members=(KEEPS, replace(KEEPS, slot=2)), source=None), "twice"),
        (replace(ASSIGNMENT, members=(KEEPS, replace(KEEPS, member=2)), source=None), "twice"),
        (replace(ASSIGNMENT, source=None), "no source"),
        (replace(ASSIGNMENT, source=9), "nothing to send"),
        (replace(ASSIGNMENT, source=1000), "nothing to send"),
        (replace(ASSIGNMENT, nonce=""), "nonce"),
        (replace(ASSIGNMENT, nonce="g" * 32), "nonce"),
        (replace(ASSIGNMENT, members=(replace(KEEPS, host="a\x1b[2J"),), source=None), "printable"),
    ],
)
def test_a_roll_that_is_none_cannot_be_written(assignment: Assignment, said: str) -> None:
    with pytest.raises(Refused, match=said):
        encode_assignment(assignment)


def test_what_is_too_long_cannot_be_written() -> None:
    many = tuple((f"tensor {number}", "0" * 32) for number in range(20_000))
    fits = replace(REPORT, fingerprints=many)
    assert _read_report(encode_report(fits, TOKEN)) == fits
    with pytest.raises(Refused, match="more than the"):
        encode_report(replace(REPORT, fingerprints=many * 2), TOKEN)


# Random bytes: scripts/fuzz tries them for longer.


@pytest.mark.parametrize("kind", fuzz_target.TARGETS)
def test_any_bytes_are_a_document_or_refused(kind: str) -> None:
    runs = histories(3000, 300_000)
    result = fuzz_target.fuzz(kind, seeded(f"random bytes for a {kind}"), [], iter([True] * runs))
    assert result.runs == runs and 100 < result.refused < runs
    assert result.paths > (70 if kind == "request" else 100)  # a request has two fields


# The numbers of ranks.


def test_places_are_horovods_but_for_the_local_rank() -> None:
    """The local rank is the position of the slot among the host's taken ones."""
    members = (
        Entry(2, "a", 1, Role.KEEP),
        Entry(5, "a", 0, Role.KEEP),
        Entry(3, "b", 3, Role.KEEP),
    )
    places = replace(ASSIGNMENT, members=members, source=None).rank_numbers()
    assert places == {
        2: RankNumbers(rank=0, size=3, local_rank=1, local_size=2, cross_rank=0, cross_size=1),
        5: RankNumbers(rank=1, size=3, local_rank=0, local_size=2, cross_rank=0, cross_size=2),
        3: RankNumbers(rank=2, size=3, local_rank=0, local_size=1, cross_rank=1, cross_size=2),
    }
