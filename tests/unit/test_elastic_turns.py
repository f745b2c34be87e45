"""Who is ahead when a rank is lost."""

from __future__ import annotations

import pytest

from hvdlite.elastic.turns import Alignment, Moment, NotAligned, Turn, aligned

AT, WAITS = False, True


@pytest.mark.parametrize(
    ("moments", "expected"),
    [
        # All at the same place: between turns, or in the same operation, which is done again.
        ([(5, 0, AT), (5, 0, AT)], (None, (False, False), (0, 0))),
        ([(5, 2, WAITS), (5, 2, WAITS)], (None, (False, False), (0, 0))),
        # One has had the boundary's answer, and is at the first operation behind it.
        ([(5, 0, AT), (5, 0, WAITS)], (None, (False, False), (0, 0))),
        # One has had the result of an operation, the other has not.
        ([(5, 1, WAITS), (5, 2, WAITS)], (1, (True, False), (0, 0))),
        ([(5, 2, AT), (5, 1, WAITS), (5, 1, WAITS)], (0, (False, True, True), (0, 0, 0))),
        # One has gone into the next turn.
        ([(5, 0, AT), (6, 0, AT)], (None, (False, False), (1, 0))),
        ([(6, 0, AT), (5, 3, WAITS), (6, 0, AT)], (0, (False, True, False), (0, 1, 0))),
    ],
)
def test_survivors_come_to_one_moment(
    moments: list[tuple[int, int, bool]], expected: tuple[object, ...]
) -> None:
    assert aligned([Moment(*each) for each in moments]) == Alignment(*expected)  # type: ignore[arg-type]


@pytest.mark.parametrize("other", [Moment(7, 0, AT), Moment(5, 2, AT)])
def test_loops_that_differ_by_more_than_a_death_explains(other: Moment) -> None:
    with pytest.raises(NotAligned, match="rank 1 at turn"):
        aligned([Moment(5, 0, AT), other])


def test_a_turn_is_burnt_from_the_loss_to_its_end() -> None:
    turn = Turn()
    turn.begin()
    assert turn.is_open and not turn.is_burnt
    turn.lost = ValueError()
    assert turn.is_burnt
    assert isinstance(turn.end(), ValueError) and not turn.is_burnt
    turn.behind = 1
    assert not turn.is_burnt, "between turns nothing is burnt"
    turn.begin()
    assert turn.is_burnt and turn.moment() == Moment(2, 0, False)
    assert turn.end() is None
    turn.begin()
    assert not turn.is_burnt


def test_a_turn_that_is_made_again_has_not_begun() -> None:
    """Operations between turns are counted from the turn before it on."""
    turn = Turn()
    turn.begin()
    turn.end()
    turn.done = 2
    before = turn.moment()
    turn.begin()
    assert turn.moment() == Moment(2, 0, False)
    turn.withdraw()
    assert turn.moment() == before and not turn.is_open
    turn.begin()
    assert turn.moment() == Moment(2, 0, False) and turn.is_open
