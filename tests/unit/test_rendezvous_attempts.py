"""Who is told what when a rank that was joining is lost. Each case is a story: what happens, and
what comes of it."""

from __future__ import annotations

import struct
import weakref

import pytest

from hvdlite.exceptions import Cause
from hvdlite.rendezvous.attempts import AttemptFailed, Attempts
from hvdlite.rendezvous.protocol import BadRequest, check_verdict, encode_verdict

OURS = encode_verdict(1, 4, "rank 1 could not join the job: no memory")


def happen(attempts, what, *arguments):
    """What a step comes to, as one short value."""
    try:
        if what == "join":
            name, rank, size = arguments[0], arguments[1], arguments[2]
            return attempts.join(
                name, rank, size, arguments[3] if len(arguments) > 3 else f"c{rank}"
            )
        if what == "arrive":
            attempt, rank = attempts.arrive(*arguments)
            return f"{attempt.key}{rank} of {attempt.size}{' met' if attempt.met else ''}"
        if what == "fail":
            return sorted(attempts.fail(*arguments))
        if what == "call off":
            return sorted(
                attempts.call_off(arguments[0], encode_verdict(-1, 4, "member 7 is gone"))
            )
        will = attempts.gone(*arguments)
        return None if will is None else (whom(will[0]), sorted(will[1]))
    except AttemptFailed as lost:
        return f"lost {whom(lost.verdict)}"
    except BadRequest as error:
        return f"bad: {error}"


def whom(verdict):
    return struct.unpack_from("<i", verdict)[0]


JOINED = [("join", "j", r, 3) for r in range(3)]
STORIES = {
    "all arrive, then nobody's end matters": (
        *((step, 0) for step in JOINED),
        (("arrive", "c2"), "j/0/2 of 3"),
        (("arrive", "c0"), "j/0/0 of 3"),
        (("arrive", "c1"), "j/0/1 of 3 met"),
        (("gone", "c1"), None),
        (("gone", "c0"), None),
        (("fail", "c2", OURS), "bad: all ranks have met already"),
    ),
    "a meeting that is called off is over for those who wait and those who come": (
        (("join", "j", 0, 3), 0),
        (("join", "j", 1, 3), 0),
        (("arrive", "c1"), "j/0/1 of 3"),
        (("call off", "j"), ["c0", "c1"]),
        (("arrive", "c0"), "lost -1"),
        (("join", "j", 2, 3), "lost -1"),
        (("call off", "j"), []),
        (("join", "k", 2, 3, "c9"), 0),
    ),
    "a meeting that is called off before anyone comes does not take place": (
        (("call off", "j"), []),
        (("join", "j", 0, 3), "lost -1"),
    ),
    "a meeting that has taken place is not called off": (
        *((step, 0) for step in JOINED),
        (("arrive", "c0"), "j/0/0 of 3"),
        (("arrive", "c1"), "j/0/1 of 3"),
        (("arrive", "c2"), "j/0/2 of 3 met"),
        (("call off", "j"), []),
        (("gone", "c1"), None),
        (("join", "j", 0, 3, "c9"), "lost -1"),  # there is no other one
    ),
    "a rank is lost while others have not come": (
        (JOINED[0], 0),
        (JOINED[1], 0),
        (("gone", "c0"), (0, ["c1"])),
        # Rank 2 comes late and hears of it, instead of waiting for those who have given up.
        (JOINED[2], "lost 0"),
    ),
    "a rank is lost that has arrived, and one that has not": (
        *((step, 0) for step in JOINED),
        (("arrive", "c0"), "j/0/0 of 3"),
        (("gone", "c0"), (0, ["c1", "c2"])),
        (("gone", "c1"), None),  # a consequence
        (("arrive", "c2"), "lost 0"),
    ),
    "the first verdict is everybody's": (
        *((step, 0) for step in JOINED),
        (("fail", "c1", OURS), ["c0", "c2"]),
        (("fail", "c0", encode_verdict(2, 4, "no, rank 2")), "lost 1"),
        (("gone", "c1"), None),
        (("gone", "c2"), None),
    ),
    "those who know of the failure meet again, with fresh keys": (
        *((step, 0) for step in JOINED),
        (("gone", "c2"), (2, ["c0", "c1"])),
        (("join", "j", 1, 3, "again1"), 1),
        (("gone", "c1"), None),  # the old connection of the same rank
        (("join", "j", 2, 3, "new2"), 1),
        (("join", "j", 0, 3, "again0"), 1),
        (("arrive", "c0"), "lost 2"),  # the old one
        (("arrive", "again0"), "j/1/0 of 3"),
        (("gone", "again1"), (1, ["again0", "new2"])),
    ),
    "who has been told at the door may open the next attempt": (
        (JOINED[0], 0),
        (("gone", "c0"), (0, [])),
        (JOINED[1], "lost 0"),
        (JOINED[1], 1),
        (JOINED[2], 1),
    ),
    "a job that has met meets again, perhaps with other ranks": (
        (("join", "j", 0, 2), 0),
        (("join", "j", 1, 2), 0),
        (("arrive", "c0"), "j/0/0 of 2"),
        (("arrive", "c1"), "j/0/1 of 2 met"),
        (("join", "j", 0, 1, "elastic"), 1),
        (("gone", "c1"), None),
        (("arrive", "elastic"), "j/1/0 of 1 met"),
    ),
    "attempts of other names do not notice": (
        (JOINED[0], 0),
        (("join", "k", 0, 3, "other"), 0),
        (("gone", "c0"), (0, [])),
        (("arrive", "other"), "k/0/0 of 3"),
    ),
    "connections that speak for nobody": (
        (("gone", "stranger"), None),
        (("arrive", "stranger"), "bad: this connection speaks for no rank: it has to join first"),
        (
            ("fail", "stranger", OURS),
            "bad: this connection speaks for no rank: it has to join first",
        ),
    ),
    "what no rank may ask, and what harms nobody": (
        (("join", "j", 3, 3, "c3"), "bad: rank 3 of 3 cannot join a job"),
        (("join", "j", 0, 1 << 21, "c3"), "bad: rank 0 of 2097152 cannot join a job"),
        (JOINED[0], 0),
        (("join", "j", 1, 3, "c0"), "bad: this connection speaks for a rank already"),
        (
            ("join", "j", 0, 3, "twin"),
            "bad: another process is rank 0 of this job already: were two started with that "
            "number?",
        ),
        (("gone", "twin"), None),
        (
            ("join", "j", 1, 2, "c1"),
            "bad: rank 1 expects a job of 2 ranks, the others one of 3",
        ),
        (("gone", "c1"), None),
        (JOINED[1], 0),
    ),
}


@pytest.mark.parametrize("story", STORIES.values(), ids=STORIES)
def test_stories(story):
    attempts = Attempts()
    for i, (step, outcome) in enumerate(story):
        assert happen(attempts, *step) == outcome, f"step {i}: {step}"


def test_a_verdict_names_the_rank_and_says_where_to_look():
    attempts = Attempts()
    for rank in range(2):
        attempts.join("j", rank, 2, rank)
    verdict, others = attempts.gone(1)
    assert others == [0]
    assert struct.unpack_from("<iBBB", verdict) == (1, 4, Cause.DIED, 0)
    assert verdict[7:].decode().startswith("rank 1 died during hvd.init()")
    assert check_verdict(verdict) == verdict


def test_what_a_rank_says_of_its_failure_is_bounded():
    assert len(encode_verdict(0, 4, "x" * 10000)) == 4096
    for bad in (b"", b"\0\0\0\0\4", b"\0\0\0\0\0why", bytes(5000)):
        with pytest.raises(BadRequest):
            check_verdict(bad)


def test_failed_attempts_leave_nothing_behind():
    attempts = Attempts()
    for i in range(100):
        for rank in range(3):
            assert attempts.join("j", rank, 3, (i, rank)) == i
        assert attempts.gone((i, 2)) is not None
        for rank in range(2):
            assert attempts.gone((i, rank)) is None
    assert len(attempts._joined) == 0 and len(attempts._latest) == 1


def test_a_job_that_has_met_keeps_none_of_its_connections():
    class Client:
        pass

    attempts = Attempts()
    clients = [Client(), Client()]
    for rank, client in enumerate(clients):
        attempts.join("j", rank, 2, client)
    assert [attempts.arrive(client)[0].met for client in clients] == [False, True]
    assert [attempts.gone(client) for client in clients] == [None, None]
    left = [weakref.ref(client) for client in clients]
    del client, clients
    assert [reference() for reference in left] == [None, None]
