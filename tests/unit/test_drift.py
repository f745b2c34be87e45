"""The drift guard's decisions: what ranks say and conclude, in which step which part is compared,
and what a difference is called."""

from __future__ import annotations

import random

import pytest

from hvdlite.adapter.agreement import drift
from hvdlite.adapter.agreement.drift import Heard


def _heard(*said: bytes) -> bytes:
    return bytes(max(column) for column in zip(*said, strict=True))


_SILENT = bytes(drift.WORDS)
_ALL = (1 << 64) - 1


@pytest.mark.parametrize(
    ("said", "verdict"),
    [
        ([_SILENT], Heard.NO_DIGEST),
        ([drift.said(4, None)], Heard.NO_DIGEST),
        ([drift.said(4, None), drift.said(4, None)], Heard.NO_DIGEST),
        ([drift.said(4, 7), drift.said(4, 7)], Heard.EQUAL),
        ([drift.said(4, 0), drift.said(4, 0)], Heard.EQUAL),
        ([drift.said(0, _ALL), drift.said(0, _ALL)], Heard.EQUAL),
        ([drift.said(4, 7), _SILENT], Heard.EQUAL),  # one has joined
        ([drift.said(4, 7), drift.said(4, None)], Heard.EQUAL),
        ([drift.said(4, 7), drift.said(4, 6)], Heard.DIFFERENT),
        ([drift.said(4, 0), drift.said(4, _ALL)], Heard.DIFFERENT),
        ([drift.said(4, 1 << 63), drift.said(4, 0)], Heard.DIFFERENT),
        ([drift.said(4, 7), drift.said(4, 7), drift.said(4, 15)], Heard.DIFFERENT),
        ([drift.said(4, 7), drift.said(8, 7)], Heard.OUT_OF_STEP),
        ([drift.said(4, None), drift.said(0, None)], Heard.OUT_OF_STEP),
        ([drift.said(4, 7), drift.said(5, 6)], Heard.OUT_OF_STEP),
    ],
)
def test_what_the_ranks_say_is_judged_alike(said: list[bytes], verdict: Heard) -> None:
    for order in (said, said[::-1]):
        assert drift.judge(_heard(*order))[0] is verdict


def test_every_flipped_bit_of_a_digest_is_heard() -> None:
    digest = 0x0123456789ABCDEF
    for bit in range(64):
        other = drift.said(0, digest ^ 1 << bit)
        assert drift.judge(_heard(drift.said(0, digest), other))[0] is Heard.DIFFERENT


@pytest.mark.parametrize("steps", [2, 3, 4, 9, 10, 64, 65, 1000])
def test_each_part_is_taken_and_said_within_the_steps(steps: int) -> None:
    watch = drift.Watch(steps)
    taken: dict[int, list[int]] = {part: [] for part in range(watch.parts)}
    for step in range(3 * steps):
        part = watch.part()
        if part is not None:
            taken[part].append(step)
        watch.hears(watch.says(None))
    for found in taken.values():
        gaps = [b - a for a, b in zip([-1, *found], found, strict=False)]
        assert found and max(gaps) < steps  # and it is said in the step after


class _Rank:
    """A guard without tensors: a content is a number for each parameter."""

    def __init__(self, steps: int, contents: list[int]) -> None:
        self.watch = drift.Watch(steps)
        self.contents = contents
        self.taken: int | None = None

    def says(self) -> bytes:
        said = self.watch.says(self.taken)
        part = self.watch.part()
        self.taken = None if part is None else hash((part, *self.contents)) & _ALL
        return said


class _Job:
    def __init__(self, size: int, steps: int = 10) -> None:
        self.steps = steps
        self.ranks = {rank: _Rank(steps, [1, 2, 3]) for rank in range(size)}
        self.joined: set[int] = set()
        self.compared = self.looks = 0
        self.reports: list[dict[int, drift.Groups]] = []

    def step(self) -> None:
        present = {r: rank for r, rank in self.ranks.items() if r not in self.joined}
        heard = _heard(_SILENT, *(rank.says() for rank in present.values()))
        concluded = {rank.watch.hears(heard) for rank in present.values()}
        assert len(concluded) == 1, "ranks that conclude differently wait for each other"
        verdict, looks = concluded.pop()
        self.compared += verdict in (Heard.EQUAL, Heard.DIFFERENT)
        if verdict is Heard.OUT_OF_STEP:
            for rank in present.values():
                rank.taken = None
        if looks:
            self.looks += 1
            found = drift.differences({r: rank.contents for r, rank in present.items()})
            for rank in present.values():
                rank.watch.has_looked(bool(found))
            if found:
                self.reports.append(found)


def test_a_difference_is_found_within_the_steps_and_reported_once() -> None:
    for when in range(12):
        job = _Job(3)
        for _ in range(when):
            job.step()
        job.ranks[1].contents = [1, 9, 3]
        for _ in range(10):
            job.step()
        assert job.reports == [{1: [[0, 2], [1]]}]
        for _ in range(100):
            job.step()
        assert len(job.reports) == 1
        job.ranks[1].contents = [1, 2, 3]  # the program has mended it
        for _ in range(100):
            job.step()
        job.ranks[0].contents = [4, 2, 3]
        for _ in range(10):
            job.step()
        assert job.reports[1:] == [{0: [[1, 2], [0]]}]


def test_a_difference_that_is_none_lets_the_guard_rest() -> None:
    """Digests of NaNs with other bits, for example."""
    job = _Job(2)
    job.ranks[0].contents = [1, 2, 3, 4]
    exact = drift.differences
    try:
        drift.differences = lambda digests: {}  # type: ignore[assignment]
        for _ in range(400):
            job.step()
    finally:
        drift.differences = exact  # type: ignore[assignment]
    assert job.compared > 300 and 2 <= job.looks <= 4 and not job.reports


@pytest.mark.parametrize("seed", range(4))
def test_ranks_that_come_go_and_join_give_no_false_alarm(seed: int) -> None:
    draw = random.Random(seed)
    job = _Job(4, steps=draw.choice([2, 3, 10, 64]))
    for step in range(15_000):
        job.step()
        contents = [step + 1, draw.getrandbits(60) + 1, 5]
        for rank in job.ranks.values():
            rank.contents = contents
        event = draw.random()
        if event < 0.01 and len(job.joined) < 3:
            job.joined.add(draw.randrange(4))
        elif event < 0.02:
            job.joined.clear()
        elif event < 0.03:  # a newcomer of an elastic job, with a watch of its own
            job.ranks[draw.randrange(4)] = _Rank(job.steps, contents)
    assert job.compared > 100
    # Ranks that have taken other steps may look for a difference. They find none.
    assert not job.reports


@pytest.mark.parametrize(
    ("sizes", "parts", "expected"),
    [
        ([], 2, [[], []]),
        ([0, 0], 2, [[0, 1], []]),
        ([5], 2, [[], [0]]),
        ([1, 1, 1, 1], 2, [[0, 1], [2, 3]]),
        ([1, 1, 1, 1], 8, [[], [0], [], [1], [], [2], [], [3]]),
        ([100, 1, 1], 2, [[0], [1, 2]]),
        ([1, 1, 100], 2, [[0, 1], [2]]),
    ],
)
def test_parameters_are_cut_into_parts_of_about_equally_many_bytes(
    sizes: list[int], parts: int, expected: list[list[int]]
) -> None:
    assert [list(cut) for cut in drift.cuts(sizes, parts)] == expected


def test_each_parameter_is_in_one_part() -> None:
    draw = random.Random(1)
    for _ in range(200):
        sizes = [draw.randrange(1000) ** draw.randrange(3) for _ in range(draw.randrange(40))]
        cuts = drift.cuts(sizes, draw.randrange(1, 9))
        assert [number for cut in cuts for number in cut] == list(range(len(sizes)))


def test_differences_name_the_groups_of_ranks() -> None:
    assert drift.differences({0: [1, 2], 1: [1, 2]}) == {}
    assert drift.differences({0: [1, 2], 3: [1, 4], 5: [1, 4]}) == {1: [[3, 5], [0]]}
    assert drift.differences({0: [1], 1: [2]}) == {0: [[0], [1]]}
    assert drift.differences({0: [0], 1: [2]}) == {}  # rank 0 has left it out


@pytest.mark.parametrize(
    ("groups", "words"),
    [
        ([[0, 1, 3], [2]], "of rank 2 differs from that of the other 3 ranks, which agree"),
        ([[0, 1, 3], [4], [2]], "of ranks 2 and 4 differs from that of the other 3 ranks"),
        ([[0], [1]], "differs between rank 0 and rank 1: two are no majority"),
        ([[0, 1], [2, 3]], "differs, and no majority agrees: ranks 0 and 1; ranks 2 and 3"),
        ([[0], [1], [2]], "differs, and no majority agrees: rank 0; rank 1; rank 2"),
    ],
)
def test_a_difference_is_told_in_words(groups: drift.Groups, words: str) -> None:
    sentence = drift.sentence("w", 0, groups, 57, None)
    assert words in sentence and sentence.endswith("(found in step 57 of this optimizer).")
    more = drift.sentence("w", 2, groups, 57, 50)
    assert more.startswith("Parameter 'w' (and 2 more) ")
    assert "still the same in step 50" in more
