"""A member's reports and the assignments that it follows, with a store that is a dictionary."""

from __future__ import annotations

import threading

import pytest
from machine import within

from hvdlite.elastic.driver_notices import Reader
from hvdlite.exceptions import Cause as LossCause
from hvdlite.exceptions import Loss
from hvdlite.job import membership
from hvdlite.job.membership import Membership, PutOut, StateProgress
from hvdlite.launch.environment import Identity
from hvdlite.rendezvous.documents import (
    Accusation,
    Assignment,
    Cause,
    DriverNotice,
    Entry,
    RankNumbers,
    Role,
    decode_report,
    encode_assignment,
    encode_notice,
)

TOKEN = bytes(range(32))


class FakeStore:
    """Keys are waited for, as in the real one; close() ends a wait."""

    def __init__(self) -> None:
        self.keys: dict[str, bytes] = {}
        self.closed = False
        self.changed = threading.Condition()

    def set(self, key: str, value: bytes) -> None:
        with self.changed:
            self.keys[key] = value
            self.changed.notify_all()

    def get(self, key: str, timeout: float | None = None) -> bytes:
        with self.changed:
            came = self.changed.wait_for(lambda: key in self.keys or self.closed, within(10))
            if not came or self.closed:
                raise ConnectionError(f"no {key}")
            return self.keys[key]

    def delete(self, key: str) -> None:
        with self.changed:
            self.keys.pop(key, None)

    def close(self) -> None:
        with self.changed:
            self.closed = True
            self.changed.notify_all()


class Ended(list[tuple[int, str]]):
    """Stands for the core: which generations were ended, and why."""

    def __init__(self) -> None:
        super().__init__()
        self.heard = threading.Event()

    def __call__(self, generation: int, why: str) -> None:
        self.append((generation, why))
        self.heard.set()


def _member(store: FakeStore, number: int = 5, meets: bool = True) -> Membership:
    return Membership(number, 1, TOKEN, RankNumbers(1, 2, 1, 2, 0, 1), meets, lambda: store)


def _write_roll(store: FakeStore, generation: int, *numbers: int, answers: int = 0) -> None:
    entries = tuple(Entry(m, "here", slot, Role.KEEP) for slot, m in enumerate(numbers))
    assignment = Assignment(generation, entries, position=0, answers=answers).with_nonce("0" * 32)
    store.set(f"elastic/assignment/{generation}", encode_assignment(assignment))


def _in_generation(store: FakeStore, generation: int, *numbers: int) -> Membership:
    member = _member(store)
    store.set("elastic/place/5", str(generation).encode())
    _write_roll(store, generation, *numbers)
    assert member.arrive() is not None
    return member


def test_a_newcomer_reports_and_takes_its_place_from_the_roll() -> None:
    store = FakeStore()
    member = _in_generation(store, 3, 4, 5, 6)
    report = decode_report(store.keys["elastic/report/0/5"], TOKEN, 5, 0)
    assert report.newcomer and report.meets and not report.broken
    assert (member.generation, member.numbers.rank, member.numbers.size) == (3, 1, 3)
    assert member.entry.member == 5 and member.source is None
    member.entered(lambda why: pytest.fail(why))
    assert "elastic/in/3/5" in store.keys


def test_one_that_came_too_late_asks_again_from_run() -> None:
    store = FakeStore()
    store.set("elastic/place/5", b"0")
    member = _member(store)
    assert member.arrive() is None and member.generation == 0 and member.numbers.size == 2
    member.in_run = True
    asked = threading.Thread(target=member.arrive)
    asked.start()
    with store.changed:
        assert store.changed.wait_for(lambda: not _meets(store), within(10))
        assert "elastic/place/5" not in store.keys  # the old answer is not taken for the new one
    _write_roll(store, 9, 5)
    store.set("elastic/place/5", b"9")
    asked.join(within(10))
    assert member.generation == 9


def _meets(store: FakeStore) -> bool:
    return decode_report(store.keys["elastic/report/0/5"], TOKEN, 5, 0).meets


def test_one_that_does_not_meet_asks_for_nothing_before_run() -> None:
    store = FakeStore()
    assert _member(store, meets=False).arrive() is None and not store.keys


def test_a_survivor_reports_its_marks_and_whom_its_engine_names() -> None:
    store = FakeStore()
    member = _in_generation(store, 3, 4, 5, 6)
    member.trains()
    member.progress = StateProgress(8, True, 6)
    member.has_failed(Loss(LossCause.SILENT, (2,)))
    _write_roll(store, 4, 4, 5)
    member.arrive()
    report = decode_report(store.keys["elastic/report/4/5"], TOKEN, 5, 4)
    assert (report.position, report.whole, report.copy, report.broken) == (8, True, 6, True)
    assert report.accused == (Accusation(6, Cause.SILENCE),) and not report.newcomer
    assert (member.generation, member.numbers.size) == (4, 2)


@pytest.mark.parametrize("lost", [1, -1, 3, None])
def test_neither_itself_nor_an_unknown_rank_is_accused(lost: int | None) -> None:
    store = FakeStore()
    member = _in_generation(store, 3, 4, 5, 6)
    member.has_failed(Loss(LossCause.FAILED, () if lost is None else (lost,)))
    _write_roll(store, 4, 5)
    member.arrive()
    assert decode_report(store.keys["elastic/report/4/5"], TOKEN, 5, 4).accused == ()


def test_one_that_the_roll_does_not_name_is_put_out() -> None:
    store = FakeStore()
    member = _in_generation(store, 3, 4, 5)
    _write_roll(store, 4, 4)
    with pytest.raises(PutOut) as end:
        member.arrive()
    assert end.value.code == 0 and "goes on without this process (member 5)" in end.value.why


def test_only_news_about_the_present_generation_abort_its_engine() -> None:
    member = _in_generation(FakeStore(), 3, 4, 5)
    ended = Ended()
    member.end(2, "old", ended)
    assert ended == []
    member.end(3, "now", ended)
    assert ended == [(3, "now")]


def test_an_engine_that_comes_up_in_an_ended_generation_is_aborted() -> None:
    member = _in_generation(FakeStore(), 3, 4, 5)
    early, late = Ended(), Ended()
    member.end(3, "member 4 died", early)
    member.entered(late)
    assert early == late == [(3, "member 4 died")]


def test_the_reader_aborts_and_tells_and_ends() -> None:
    store = FakeStore()
    member = _in_generation(store, 3, 4, 5)
    told: list[DriverNotice] = []
    ended = Ended()
    reader = Reader(member, 2, told.append, ended)
    store.set("elastic/notice/1", b"is answered by the assignment already")
    store.set("elastic/notice/2", encode_notice(DriverNotice(2, 3, ready=(9,))))
    store.set("elastic/notice/3", encode_notice(DriverNotice(3, 3, broken=True, lost=(4,))))
    assert ended.heard.wait(within(10))
    reader.stop()
    assert [news.number for news in told] == [2]
    assert reader.latest is not None and reader.latest.number == 3
    assert ended == [(3, "hvdliterun has lost member 4 (rank 0)")]
    assert not any(thread.name == "hvdlite-notices" for thread in threading.enumerate())


def test_what_the_launcher_has_to_set() -> None:
    environ = {"HVDLITE_ELASTIC": "1", "HVDLITE_MEMBER": "3"}
    assert membership.is_asked_for(environ)
    assert not membership.is_asked_for({"HVDLITE_ELASTIC": "1"})
    assert not membership.is_asked_for({"HVDLITE_MEMBER": "3"})
    with pytest.raises(ValueError, match="without HVDLITE_SLOT, HVDLITE_MEMBER_TOKEN"):
        membership._from_environment(environ, Identity())
