"""The keys and their waiters, with a clock that stands still."""

from __future__ import annotations

import random

from hvdlite.rendezvous.protocol import (
    WAIT_FOREVER,
    Operation,
    Request,
    encode_count,
    encode_counter,
)
from hvdlite.rendezvous.table import Table


class Asker:
    def __init__(self) -> None:
        self.replies = []

    def __call__(self, payload: bytes) -> None:
        self.replies.append(payload)


def ask(table, operation, key, argument=0, value=b"", now=0.0):
    asker = Asker()
    waiter = table.submit(Request(operation, key, argument, value), now, asker)
    assert (waiter is None) == bool(asker.replies)
    return asker, waiter


def put(table, key, value=b"v"):
    assert ask(table, Operation.SET, key, value=value)[0].replies == [b"\0"]


def test_a_waiter_is_answered_once_by_the_key_it_waits_for():
    table = Table()
    asker, _ = ask(table, Operation.GET, "k", 1000)
    put(table, "other")
    assert asker.replies == []
    put(table, "k")
    put(table, "k", b"again")
    table.expire(100.0)
    assert asker.replies == [b"\0v"]


def test_deadlines_are_kept_to_the_millisecond_and_in_order():
    table = Table()
    late, _ = ask(table, Operation.GET, "k", 2000, now=10.0)
    soon, _ = ask(table, Operation.GET, "k", 1, now=10.0)
    forever, _ = ask(table, Operation.GET, "k", WAIT_FOREVER, now=10.0)
    assert table.next_deadline() == 10.001
    table.expire(10.0005)
    assert soon.replies == []
    table.expire(10.001)
    assert soon.replies[0][:1] == b"\1" and late.replies == []
    table.expire(1e9)
    assert late.replies[0][:1] == b"\1" and forever.replies == []
    assert table.next_deadline() is None


def test_a_counter_wakes_those_who_wait_for_its_key():
    table = Table()
    asker, _ = ask(table, Operation.GET, "n", WAIT_FOREVER)
    ask(table, Operation.ADD, "n", value=encode_counter(3))
    assert asker.replies == [b"\0" + encode_counter(3)]


def test_a_cancelled_waiter_is_never_answered_and_leaves_nothing_behind():
    table = Table()
    asker, waiter = ask(table, Operation.COLLECT, "m", 1000, encode_count(3))
    table.cancel(waiter)
    for i in range(3):
        put(table, f"m/{i}")
    table.expire(1e9)
    assert asker.replies == []
    assert not table._waiters and table.next_deadline() is None


def test_waiters_that_were_answered_do_not_pile_up_behind_far_deadlines():
    table = Table()
    for i in range(10000):
        ask(table, Operation.GET, f"k{i}", 10**9)
        put(table, f"k{i}")
        table.submit(Request(Operation.DELETE, f"k{i}"), 0.0, lambda payload: None)
    assert len(table._deadlines) < 3000


def test_collects_are_answered_exactly_when_all_keys_exist_in_whatever_order_keys_come_and_go():
    for seed in range(200):
        rng = random.Random(seed)
        table = Table()
        n = rng.randint(1, 4)
        present = set()
        asker, waiter = ask(table, Operation.COLLECT, "m", WAIT_FOREVER, encode_count(n))
        for _ in range(30):
            i = rng.randrange(n)
            if rng.random() < 0.6:
                put(table, f"m/{i}")
                present.add(i)
            else:
                ask(table, Operation.DELETE, f"m/{i}")
                present.discard(i)
            if len(present) == n:
                assert len(asker.replies) == 1, seed
                break
            assert asker.replies == [], seed


def test_one_answer_to_a_collect_is_made_for_all_and_made_anew_after_a_change():
    table = Table()
    askers = [
        ask(table, Operation.COLLECT, "m", WAIT_FOREVER, encode_count(2))[0] for _ in range(3)
    ]
    put(table, "m/0", b"a")
    put(table, "m/1", b"b")
    first = askers[0].replies[0]
    assert all(asker.replies[0] is first for asker in askers)
    put(table, "m/1", b"c")
    again, _ = ask(table, Operation.COLLECT, "m", 0, encode_count(2))
    assert again.replies[0] == first[:-1] + b"c"
