"""Which step is the last common one: the table, and random histories of ranks that train."""

from __future__ import annotations

import random

import pytest
from elastic_histories import histories, seeded
from elastic_training import live

from hvdlite.rendezvous.documents import Report, Role
from hvdlite.rendezvous.last_step import Inconsistent, decide

KEEP, RESTORE, RECEIVE = Role.KEEP, Role.RESTORE, Role.RECEIVE


def _report(member: int, text: str) -> Report:
    """`7`: whole at 7; `7!`: torn there; `c4`: has a copy of 4; `new`."""
    words = text.split()
    copies = [int(word[1:]) for word in words if word.startswith("c")]
    copy = copies[0] if copies else None
    if words[0] == "new":
        return Report(member, 2, copy=0, newcomer=True)
    return Report(member, 2, int(words[0].rstrip("!")), "!" not in words[0], copy=copy)


@pytest.mark.parametrize(
    ("said", "position", "source", "parts"),
    [
        # the first generation
        (["new"], 0, None, [KEEP]),
        (["new", "new", "new"], 0, 1, [KEEP, RECEIVE, RECEIVE]),
        # no member is beyond position 0
        (["0 c0", "0 c0"], 0, 1, [RESTORE, RECEIVE]),
        (["0! c0", "0 c0", "new"], 0, 1, [RESTORE, RECEIVE, RECEIVE]),
        (["0 c0"], 0, None, [RESTORE]),
        (["0!", "0! c0"], 0, 2, [RECEIVE, RESTORE]),
        (["0!", "0"], 0, 2, [RECEIVE, KEEP]),
        # all whole at n
        (["7 c5", "7 c4", "7"], 7, None, [KEEP, KEEP, KEEP]),
        (["7", "7", "new"], 7, 1, [KEEP, KEEP, RECEIVE]),
        # some at n + 1
        (["6", "7", "7"], 7, 2, [RECEIVE, KEEP, KEEP]),
        (["6!", "6", "7"], 7, 3, [RECEIVE, RECEIVE, KEEP]),
        (["1", "0 c0"], 1, 1, [KEEP, RECEIVE]),
        # some whole at n, others torn behind it, or before it on the way back to a copy
        (["7!", "7", "0!", "new"], 7, 2, [RECEIVE, KEEP, RECEIVE, RECEIVE]),
        (["4 c4", "9! c4"], 4, 1, [KEEP, RECEIVE]),
        (["0 c0", "3! c0"], 0, 1, [KEEP, RECEIVE]),
        # none whole
        (["7! c5", "7! c5"], 5, None, [RESTORE, RESTORE]),
        (["7! c4", "7! c5", "7!"], 5, 2, [RECEIVE, RESTORE, RECEIVE]),
        (["7! c5", "new"], 5, 1, [RESTORE, RECEIVE]),
        (["7! c0", "7! c0"], 0, 1, [RESTORE, RECEIVE]),
    ],
)
def test_the_table(said: list[str], position: int, source: int | None, parts: list[Role]) -> None:
    decision = decide([_report(member, text) for member, text in enumerate(said, 1)])
    assert (decision.position, decision.source) == (position, source)
    assert [decision.roles[member] for member in range(1, len(said) + 1)] == parts


@pytest.mark.parametrize(
    ("said", "text"),
    [
        (["7", "5"], "member 1 is at position 7, and member 2 is more than one boundary behind"),
        (["5", "7", "4"], "member 2 is at position 7, and members 1, 3 are more than one"),
        (["7!", "7!"], "no rank has a copy"),
        (["0!"], "no rank has a copy"),
    ],
)
def test_what_cannot_be_ends_the_job(said: list[str], text: str) -> None:
    with pytest.raises(Inconsistent, match=text):
        decide([_report(member, each) for member, each in enumerate(said, 1)])


def test_a_replica_that_has_drifted_is_named() -> None:
    def whole(member: int, checksum: str) -> Report:
        return Report(member, 2, 7, True, fingerprints=(("a", "1"), ("layer.weight", checksum)))

    assert decide([whole(1, "x"), whole(2, "x")]).source is None
    with pytest.raises(Inconsistent, match=r"members 1 and 3 .* layer\.weight differs"):
        decide([whole(1, "x"), whole(2, "x"), whole(3, "y")])
    # A member that is behind receives anyway.
    behind = Report(4, 2, 6, True, fingerprints=(("a", "2"),))
    assert decide([whole(1, "x"), behind]).roles[4] is RECEIVE


def test_any_history_has_one_state_and_each_sample_once() -> None:
    rng = seeded("histories of ranks that train")
    changes = furthest = back = 0
    for _ in range(histories(500, 60_000)):
        seed = rng.getrandbits(64)
        try:
            training = live(random.Random(seed), changes=12)
        except Exception as error:
            raise AssertionError(f"the history of seed {seed}: {error!r}") from error
        changes += training.changes
        back += training.back_to_copies
        furthest = max([furthest, *(rank.position for rank in training.ranks)])
    assert changes > 1500 and furthest > 10 and back > 15  # or nothing was tried
