"""Which tensors of a group in place share memory."""

from __future__ import annotations

import random

import pytest

pytest.importorskip("hvdlite._core", reason="the native core is not built here")

from hvdlite.core.collectives import sharing  # noqa: E402


@pytest.mark.parametrize(
    "extents, expected",
    [
        ([], set()),
        ([(0, 4), (4, 8)], set()),
        ([(4, 8), (0, 4), (8, 9)], set()),
        ([(0, 4), (0, 4)], {1}),
        ([(0, 4), (0, 4), (0, 4)], {1, 2}),
        ([(2, 6), (0, 3)], {1}),
        ([(0, 8), (2, 3), (4, 5)], {1, 2}),
        ([(4, 5), (2, 3), (0, 8)], {1, 2}),
        ([(0, 0), (0, 4), (2, 2), (0, 0)], set()),
    ],
)
def test_all_but_the_first_of_those_that_overlap(
    extents: list[tuple[int, int]], expected: set[int]
) -> None:
    assert sharing(extents) == expected


def test_those_that_are_not_copied_are_apart() -> None:
    chance = random.Random(1)
    for _ in range(300):
        starts = [chance.randrange(20) for _ in range(6)]
        extents = [(start, start + chance.randrange(6)) for start in starts]
        copied = sharing(extents)
        kept = [set(range(*extents[i])) for i in range(6) if i not in copied]
        assert sum(map(len, kept)) == len(set().union(*kept))
        for i in copied:  # none without a reason
            others = [set(range(*extents[j])) for j in range(6) if j != i]
            assert set(range(*extents[i])) & set().union(*others)
