"""What the driver takes from the store, and what it refuses: row 33 of the design's faults."""

from __future__ import annotations

from dataclasses import replace

import pytest
from elastic_histories import seeded
from fuzz.documents import changed

from hvdlite.launch.elastic import events
from hvdlite.launch.elastic.store_events import StoreEvents
from hvdlite.rendezvous import documents
from hvdlite.rendezvous.documents import Report, encode_report
from hvdlite.rendezvous.fields import sealed_key
from hvdlite.rendezvous.quota import FIRST, SECONDS

REPORT = Report(3, 5, position=7, whole=True)
# What a member says by a key alone.
SAID: dict[str, events.Entered | events.Trains | events.Returned] = {
    "in/5/3": events.Entered(3, 5),
    "trains/3": events.Trains(3),
    "done/2": events.Returned(2),
}


class Job:
    def __init__(self) -> None:
        self.said: list[str] = []
        self.store_events = StoreEvents(self.said.append, lambda: {2: "a", 3: "b"})
        self.tokens = {member: self.store_events.new_token(member) for member in (2, 3)}

    def read(self, key: str, value: bytes = b"", now: float = 0.0) -> list[events.Event]:
        return self.store_events.read([(key, value)], now)

    def refuses(self, key: str, value: bytes, why: str) -> None:
        before = len(self.said)
        assert self.read(key, value, now=before * 2 * SECONDS) == []
        assert len(self.said) == before + 1 and why in self.said[-1], self.said


def test_members_are_heard() -> None:
    job = Job()
    assert job.read("report/5/3", encode_report(REPORT, job.tokens[3])) == [events.Reported(REPORT)]
    for key, event in SAID.items():
        assert job.read(key, sealed_key(key, job.tokens[event.member])) == [event]
    assert job.said == []


def test_each_member_has_a_token_of_its_own() -> None:
    tokens = Job().tokens
    assert tokens[2] != tokens[3] and {len(token) for token in tokens.values()} == {32}


def test_a_report_without_the_members_token_is_refused() -> None:
    job = Job()
    for token in (bytes(32), b"", job.tokens[2]):
        job.refuses("report/5/3", encode_report(REPORT, token), "not sealed with its token")


@pytest.mark.parametrize("key", SAID)
def test_no_other_process_says_for_a_member_that_it_is_in_trains_or_is_done(key: str) -> None:
    job, member = Job(), SAID[key].member
    other = job.tokens[5 - member]
    for value in (b"", bytes(64), sealed_key(key, other), sealed_key(key, bytes(32))):
        job.refuses(key, value, f"not sealed with the token of member {member}")
    for another in ("in/4/3", "trains/2", "done/3"):  # what the member has said is no other key's
        job.refuses(key, sealed_key(another, job.tokens[member]), "not sealed")


ASKED = documents.leave_request("a disk", 2.5)
LEAVES: dict[str, events.Event] = {
    "leave/3": events.MemberLeaves(3, "a disk", 2.5),
    "leave-host/3": events.HostLeaves("b", "a disk", 2.5),
}


@pytest.mark.parametrize("key", LEAVES)
def test_a_member_asks_to_leave(key: str) -> None:
    job = Job()
    assert job.read(key, documents.encode_leave_request(ASKED, key, job.tokens[3])) == [LEAVES[key]]
    assert job.said == []


@pytest.mark.parametrize("key", LEAVES)
def test_no_process_without_the_members_token_asks_for_it_to_leave(key: str) -> None:
    job = Job()
    for token in (bytes(32), b"", job.tokens[2]):
        job.refuses(
            key,
            documents.encode_leave_request(ASKED, key, token),
            "not sealed with the token of member 3",
        )
    job.refuses(key, b'{"reason":"a disk","seconds":2.5}', "expected an object with the fields")
    for other in {*LEAVES, "leave/2"} - {key}:  # the request is no other key's
        job.refuses(key, documents.encode_leave_request(ASKED, other, job.tokens[3]), "not sealed")
    longer = documents.encode_leave_request(ASKED, key, job.tokens[3]).replace(b"2.5", b"9.5")
    job.refuses(key, longer, "not sealed")


def test_a_report_for_another_member_is_refused() -> None:
    job = Job()
    of_two = encode_report(replace(REPORT, member=2), job.tokens[2])
    job.refuses("report/5/3", of_two, "not sealed with its token")
    as_three = encode_report(REPORT, job.tokens[2])  # member 2 says that it is member 3
    job.refuses("report/5/2", as_three, "lies where member 2's belongs")


def test_a_report_of_an_earlier_generation_is_refused_in_a_later_one() -> None:
    job = Job()
    job.refuses("report/6/3", encode_report(REPORT, job.tokens[3]), "another generation, 5")


def test_a_report_of_a_member_that_was_never_started_is_refused() -> None:
    job = Job()
    job.refuses("report/5/4", encode_report(replace(REPORT, member=4), bytes(32)), "no member 4")


@pytest.mark.parametrize(
    "key",
    ["", "report", "report/5", "report/5/3/1", "report/5/x", "report/-1/3", "report/5/\u0663",
     "report/5/" + "3" * 1000, "in/3", "trains/", "done/5/3", "news/1", "assignment/1", "place/3",
     "other/3", "trains/3/", "\x1b[2J"],
)  # fmt: skip
def test_keys_of_no_member_are_refused(key: str) -> None:
    job = Job()
    job.refuses(key, b"", "it is no key of a member")
    assert job.said[0].isprintable() and len(job.said[0]) < 200


def test_any_bytes_are_refused_with_a_line() -> None:
    job, rng = Job(), seeded("reports that are changed on their way")
    good = encode_report(REPORT, job.tokens[3])
    for turn in range(500):
        bad = changed(rng, good)
        if bad != good:
            assert job.read("report/5/3", bad, now=turn * 2 * SECONDS) in (
                [],
                [events.Reported(REPORT)],  # the same, written in another way
            )
    assert len(job.said) > 400


def test_a_flood_is_told_in_a_few_lines_and_a_count() -> None:
    job = Job()
    for _ in range(1000):
        job.read("other/3", now=1.0)
    assert len(job.said) == FIRST
    job.read("done/3", sealed_key("done/3", job.tokens[3]), now=2.0 + SECONDS)
    assert job.said[FIRST:] == ["995 more keys of the job's store were refused."]
