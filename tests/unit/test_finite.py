"""Numbers that are not finite on all ranks: what a rank notes and tells, and who was first."""

from __future__ import annotations

import pytest

from hvdlite.adapter.agreement import drift
from hvdlite.adapter.agreement.finite import Notes, Told, sentence

EVERYWHERE = "Parameter 'w' is not finite on all ranks since step "


@pytest.mark.parametrize(
    ("everyones", "step", "words"),
    [
        # rank 1's own gradient was NaN in step 9, the others' one step later
        ({0: Told(2, 1, 0, 0), 1: Told(3, 2, 0, 0)}, 11, f"{EVERYWHERE}9, first on rank 1 ("),
        # the others do not know of it yet
        ({0: Told(0, 0, 0, 0), 1: Told(2, 2, 0, 0)}, 11, f"{EVERYWHERE}10, first on rank 1 ("),
        ({0: Told(4, 4, 0, 0), 1: Told(4, 3, 0, 0)}, 11, "8, on all of them in the same step ("),
        (
            {0: Told(4, 1, 0, 0), 1: Told(4, 1, 0, 0), 2: Told(3, 1, 0, 0)},
            11,
            "8, first on ranks 0 and 1 (",
        ),
        # no rank sees what it computes alone
        ({0: Told(0, 3, 0, 0), 1: Told(0, 3, 0, 0)}, 11, "9, and no rank is known to be the first"),
        ({0: Told(0, 1, 0, 0), 1: Told(0, 3, 0, 0)}, 11, f"{EVERYWHERE}9, first on rank 1 ("),
        ({0: Told(1, 1, 0, 4), 3: Told(2, 1, 0, 3)}, 5, "'w' (and 3 more) is not finite"),
        # a rank whose parameters are finite differs from the others, which the guard tells itself
        ({0: Told(0, 0, -1, 0), 1: Told(2, 2, 0, 0)}, 11, ""),
    ],
)
def test_the_first_rank_is_named(everyones: dict[int, Told], step: int, words: str) -> None:
    said = sentence(everyones, "w", step)
    assert words in said and bool(words) == bool(said), said
    assert not said or said.endswith(f"(found in step {step} of this optimizer).")


def test_a_rank_asks_once_and_again_after_its_parameters_were_finite() -> None:
    notes = Notes(parts=2)
    notes.kept(3, True)
    assert not notes.asks
    notes.alone(4, False)
    assert not notes.asks, "a gradient that overflows is a scaler's business"
    notes.kept(5, False)
    assert notes.asks
    assert notes.told(6, 7, 1) == Told(3, 2, 7, 1)
    for step, is_finite in ((6, False), (7, True), (8, None), (9, None), (10, False)):
        notes.kept(step, is_finite)  # the parts of a round; some are empty
        assert not notes.asks, step
    notes.alone(11, True)
    for step in (11, 12):
        notes.kept(step, True)
    assert not notes.asks
    notes.kept(13, False)
    assert notes.asks
    assert notes.told(14, 0, 0) == Told(0, 2, 0, 0)


def test_an_overflow_that_is_over_is_forgotten() -> None:
    notes = Notes(parts=1)
    notes.alone(1, False)
    notes.alone(2, True)
    notes.kept(3, False)
    assert notes.told(3, 0, 0).alone == 0


@pytest.mark.parametrize("asking", [(0,), (1,), (0, 1), ()])
def test_all_hear_that_one_asks(asking: tuple[int, ...]) -> None:
    said = [drift.said(4, 7, asks=rank in asking) for rank in (0, 1)]
    heard = bytes(map(max, *said))
    assert drift.is_asked(heard) == bool(asking)
    assert drift.judge(heard)[0] is drift.Heard.EQUAL
    assert not drift.is_asked(bytes(drift.WORDS)), "a rank that has joined"
