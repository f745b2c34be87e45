"""What the ranks of a new generation agree on about their process sets."""

from __future__ import annotations

import pytest

from hvdlite.core.process_sets import ProcessSet
from hvdlite.elastic.session import Known, agreed


@pytest.mark.parametrize(
    ("known", "expected"),
    [
        ([((1, 2), None), ((1, 2), None)], ((1, 2), None)),
        ([(None, None), ((1, 2), None)], ((1, 2), None)),  # a newcomer is rank 0
        ([((), None), (None, None)], ((), None)),  # all its members have left
        ([((-1,), (4,)), (None, None)], ((-1,), (4,))),  # it was removed
        ([(None,), (None,)], (None,)),
    ],
)
def test_survivors_tell_newcomers_who_is_in_a_set_by_list(
    known: list[Known], expected: Known
) -> None:
    assert agreed(known) == expected


def test_programs_that_register_other_sets_are_told_so() -> None:
    with pytest.raises(ValueError, match="different numbers of process sets.*rank 0 1, rank 1 2"):
        agreed([(None,), (None, (1,))])


def test_a_rule_gives_the_ranks_for_a_size() -> None:
    half = ProcessSet(lambda size: range(size // 2))
    assert half.ranks is None and half.included() is None
    for size, ranks in ((4, [0, 1]), (5, [0, 1]), (1, [])):
        half.apply_rule(size)
        assert half.ranks == ranks


def test_a_rule_that_names_no_ranks_is_an_error() -> None:
    with pytest.raises(ValueError, match="takes a sequence of ranks"):
        ProcessSet(lambda size: ["0"]).apply_rule(2)
