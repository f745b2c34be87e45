"""A cursor deals each sample of an epoch once, whatever becomes of the ranks."""

from __future__ import annotations

import json
import random
from collections import Counter
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import pytest
from elastic_histories import histories, seeded

from hvdlite.data import order
from hvdlite.data.cursor import Cursor


def cursor_of(rank: int, size: int, length: int, *args: Any, **options: Any) -> Cursor:
    return Cursor(length, *args, rank=lambda: rank, size=lambda: size, **options)


def epoch_of(size: int, length: int, *args: Any, **options: Any) -> list[list[list[int]]]:
    """By step and rank, the samples of the first epoch, in their order."""
    ranks = [cursor_of(rank, size, length, *args, shuffle=False, **options) for rank in range(size)]
    steps = zip(*[[indices.tolist() for indices in cursor] for cursor in ranks], strict=True)
    return [list(step) for step in steps]


@pytest.mark.parametrize(
    ("tail", "batch", "steps"),
    [
        ("pad", {"batch_size": 2}, [[[0, 1], [2, 3]], [[4, 5], [6, 0]]]),
        ("pad", {"global_batch": 5}, [[[0, 1], [2, 3, 4]], [[5, 6], [0, 1, 2]]]),
        ("drop", {"batch_size": 2}, [[[0, 1], [2, 3]]]),
        ("drop", {"global_batch": 3}, [[[0], [1, 2]], [[3], [4, 5]]]),
        ("drop", {"global_batch": 7}, [[[0, 1, 2], [3, 4, 5, 6]]]),
        ("carry", {"batch_size": 2}, [[[0, 1], [2, 3]], [[4, 5], [6, 0]]]),
        ("short", {"global_batch": 4}, [[[0, 1], [2, 3]], [[4], [5, 6]]]),
        ("short", {"global_batch": 6}, [[[0, 1, 2], [3, 4, 5]], [[], [6]]]),
    ],
)
def test_an_epoch_of_seven_samples_and_two_ranks(
    tail: str, batch: dict[str, int], steps: list[list[list[int]]]
) -> None:
    assert epoch_of(2, 7, tail=tail, **batch) == steps
    assert len(cursor_of(1, 2, 7, tail=tail, **batch)) == len(steps)


def test_a_step_longer_than_the_epoch_repeats_or_carries() -> None:
    assert epoch_of(1, 3, 8) == [[[0, 1, 2, 0, 1, 2, 0, 1]]]
    cursor = cursor_of(0, 1, 3, 8, shuffle=False, tail="carry")
    assert [cursor.begin().tolist()] == [[0, 1, 2, 0, 1, 2, 0, 1]]
    cursor.whole()
    assert (cursor.epoch, cursor.sample, cursor.repeated) == (2, 2, 0)


def test_repeats_are_counted() -> None:
    cursor = cursor_of(0, 2, 7, 2)
    list(cursor)
    list(cursor)
    assert (cursor.epoch, cursor.repeated) == (2, 2)


def test_carry_deals_the_rest_of_an_epoch_before_the_next_ones_first() -> None:
    cursor = cursor_of(0, 1, 7, 2, tail="carry", seed=5)
    dealt = [sample for _ in range(2) for indices in cursor for sample in indices.tolist()]
    assert sorted(dealt[:7]) == sorted(dealt[7:14]) == list(range(7))
    assert dealt[:7] != dealt[7:14]


@pytest.mark.parametrize(("size", "rank", "weight"), [(2, 0, 1.0), (3, 0, 0.9), (3, 2, 1.2)])
def test_the_weight_makes_the_mean_over_ranks_that_of_the_batch(
    size: int,
    rank: int,
    weight: float,
) -> None:
    cursor = cursor_of(rank, size, 100, global_batch=10)
    assert cursor.weight == pytest.approx(weight)
    cursor.begin()
    assert cursor.weight == pytest.approx(weight)


def test_the_order_does_not_depend_on_the_number_of_ranks() -> None:
    def dealt(size: int) -> list[int]:
        ranks = [cursor_of(rank, size, 96, global_batch=24, seed=3) for rank in range(size)]
        steps = zip(*ranks, strict=True)
        return [sample for step in steps for indices in step for sample in indices.tolist()]

    assert dealt(1) == dealt(5) == dealt(24)


# It moves when a step is whole.


def test_it_moves_when_a_step_is_whole() -> None:
    cursor = cursor_of(0, 1, 10, 2, shuffle=False)
    assert cursor.begin().tolist() == [0, 1]
    assert cursor.sample == 0
    cursor.whole()
    assert cursor.sample == 2
    cursor.whole()
    assert cursor.sample == 2, "no step is under way"


def test_a_turn_of_the_loop_is_a_step_and_so_is_the_states_step() -> None:
    by_turns, by_state = (cursor_of(0, 1, 7, 2, shuffle=False) for _ in range(2))
    for _ in by_turns:
        pass
    for number, _ in enumerate(by_state, 1):
        by_state.whole()
        assert by_state.sample == number * 2 % 8
    assert by_turns.state_dict() == by_state.state_dict()
    assert (by_turns.epoch, by_turns.repeated) == (1, 1)


def test_a_turn_that_is_left_is_dealt_anew_unless_the_state_has_stepped() -> None:
    cursor = cursor_of(0, 1, 10, 2, shuffle=False)
    for loop in (cursor, cursor.track(cursor.batches())):
        for _ in loop:
            break
        assert cursor.sample == 0
    for _ in cursor:
        cursor.whole()
        break
    assert next(iter(cursor)).tolist() == [2, 3]


def test_a_loop_goes_on_when_the_state_goes_back_to_an_earlier_epoch() -> None:
    cursor = cursor_of(0, 1, 4, 2, shuffle=False)
    before = cursor.state_dict()
    list(cursor)
    loop = iter(cursor)
    next(loop)
    cursor.load_state_dict(before)
    assert [indices.tolist() for indices in loop] == [[0, 1], [2, 3]] * 2


def test_few_orders_are_kept() -> None:
    cursor = cursor_of(0, 1, 10, 4, tail="carry")
    for _ in cursor.track(cursor.batches(), epochs=20):
        assert len(cursor._orders._kept) <= 3


def test_a_step_that_fails_is_dealt_again() -> None:
    cursor = cursor_of(0, 1, 10, 2, shuffle=False)
    with pytest.raises(RuntimeError):
        for indices in cursor:
            if indices[0] == 4:
                raise RuntimeError("a rank is lost")
    cursor.reset()
    assert next(iter(cursor)).tolist() == [4, 5]


def test_the_rest_of_an_epoch_is_dealt_after_a_change_of_size() -> None:
    place = [0, 3]
    cursor = Cursor(20, 2, shuffle=False, rank=lambda: place[0], size=lambda: place[1])
    loop = iter(cursor)
    assert next(loop).tolist() == [0, 1]
    cursor.whole()
    place[:] = [1, 2]
    cursor.reset()
    assert next(loop).tolist() == [8, 9]
    assert len(cursor) == 4


def test_loading_a_state_goes_there() -> None:
    ahead, behind = (cursor_of(0, 2, 30, 2, seed=9) for _ in range(2))
    for _ in range(20):
        ahead.begin()
        ahead.whole()
    state = json.loads(json.dumps(ahead.state_dict()))
    assert len(json.dumps(state)) < 100
    behind.begin()
    deal = behind.deal
    behind.load_state_dict(state)
    assert behind.state_dict() == state and behind.deal > deal
    behind.whole()
    assert behind.state_dict() == state, "the step that was under way is dealt anew"
    assert behind.begin().tolist() == ahead.begin().tolist()


@pytest.mark.parametrize("changed", [{"length": 31}, {"seed": 8}, {"sample": 30}, {"epoch": -1}])
def test_a_state_of_other_data_is_refused(changed: dict[str, int]) -> None:
    cursor = cursor_of(0, 2, 30, 2, seed=9)
    with pytest.raises(ValueError, match="state|position"):
        cursor.load_state_dict({**cursor.state_dict(), **changed})


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"length": 0, "batch_size": 1}, "length is 0"),
        ({"length": 5}, "either batch_size"),
        ({"length": 5, "batch_size": 1, "global_batch": 2}, "either batch_size"),
        ({"length": 5, "batch_size": 0}, "one sample at least"),
        ({"length": 5, "batch_size": 1, "tail": "keep"}, "pad, drop, carry, short"),
        ({"length": 5, "batch_size": 1, "tail": "short"}, "global_batch"),
    ],
)
def test_what_makes_no_cursor_is_said(arguments: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Cursor(**arguments)


def test_drop_needs_a_step() -> None:
    with pytest.raises(ValueError, match="5 samples are fewer than the 6"):
        cursor_of(0, 3, 5, 2, tail="drop").begin()


# Loaders that are ahead.


def test_looking_ahead_moves_nothing() -> None:
    cursor = cursor_of(1, 2, 50, 3, seed=2)
    batches = cursor.batches()
    assert len(batches) == len(cursor) == 9
    found = list(batches)
    assert cursor.state_dict()["sample"] == 0
    assert found == [indices.tolist() for indices in cursor]


def test_tracking_a_loader_moves_with_each_turn() -> None:
    cursor = cursor_of(0, 2, 50, 3, seed=2)
    tracked = list(cursor.track(cursor.batches(), epochs=3))
    other = cursor_of(0, 2, 50, 3, seed=2)
    assert tracked == [indices.tolist() for _ in range(3) for indices in other]
    assert cursor.state_dict() == other.state_dict() and cursor.epoch == 3
    assert list(cursor.track(cursor.batches(), epochs=3)) == []


class Prefetching:
    """A loader that has fetched all batches of an epoch before it yields the first."""

    def __init__(self, cursor: Cursor) -> None:
        self.sampler = cursor.batches()

    def __iter__(self) -> Any:
        return iter(list(self.sampler))


def test_prefetched_batches_of_an_old_deal_are_refused() -> None:
    place = [0, 2]
    cursor = Cursor(24, 2, shuffle=False, rank=lambda: place[0], size=lambda: place[1])
    tracked = cursor.track(Prefetching(cursor))
    assert [next(tracked), next(tracked)] == [[0, 1], [4, 5]]
    cursor.whole()
    place[:] = [1, 3]
    cursor.reset()
    assert list(tracked) == [[10, 11], [16, 17], [22, 23]]


def test_a_loader_of_an_old_deal_stops() -> None:
    cursor = cursor_of(0, 1, 10, 2, shuffle=False)
    loader = iter(cursor.batches())
    assert next(loader) == [0, 1]
    cursor.reset()
    assert list(loader) == []


@pytest.mark.parametrize(
    ("loader", "said"),
    [([1, 2, 3], "3 of the 5"), ([1] * 6, "more than the 5"), ([], "0 of the 5")],
)
def test_a_loader_that_does_not_follow_the_cursor_is_noticed(loader: list[int], said: str) -> None:
    cursor = cursor_of(0, 1, 10, 2)
    with pytest.raises(ValueError, match=said):
        list(cursor.track(loader))


# Random schedules.


@dataclass
class Schedule:
    """Ranks that come, go and fail; what all whole steps of the surviving history have dealt."""

    rng: random.Random
    options: dict[str, Any]
    ranks: list[Cursor] = field(default_factory=list)
    places: dict[int, tuple[int, int]] = field(default_factory=dict)
    dealt: list[tuple[int, list[int]]] = field(default_factory=list)  # epoch, samples
    sizes: set[int] = field(default_factory=set)

    def change(self) -> None:
        """Some leave, some come; those that are new take the state of one that is not."""
        rng = self.rng
        count = rng.randint(1, len(self.ranks)) if self.ranks else 0
        staying = rng.sample(self.ranks, count)
        size = max(len(staying), round(64 ** rng.random()))
        state = staying[0].state_dict() if staying else None
        self.ranks = staying + [self._new() for _ in range(size - len(staying))]
        for rank, cursor in enumerate(self.ranks):
            self.places[id(cursor)] = rank, size
            if state is not None and cursor not in staying:
                cursor.load_state_dict(state)
            cursor.reset()

    def _new(self) -> Cursor:
        place: list[Cursor] = []
        cursor = Cursor(
            **self.options,
            rank=lambda: self.places[id(place[0])][0],
            size=lambda: self.places[id(place[0])][1],
        )
        place.append(cursor)
        return cursor

    def step(self) -> None:
        """All take part, or it fails: for all, or behind the last reduction of some."""
        epoch = self.ranks[0].epoch
        parts = [cursor.begin().tolist() for cursor in self.ranks]
        lengths = {len(part) for part in parts}
        assert max(lengths) - min(lengths) <= 1
        weights = [cursor.weight for cursor in self.ranks]
        assert sum(weights) == pytest.approx(len(weights))
        fate = self.rng.random()
        if fate < 0.1:
            return self.change()
        first = self.rng.randint(1, len(self.ranks)) if fate < 0.2 else len(self.ranks)
        for cursor in self.ranks[:first]:
            cursor.whole()
        for cursor in self.ranks[first:]:
            cursor.load_state_dict(self.ranks[0].state_dict())
        samples = [sample for part in parts for sample in part]
        self.sizes.add(len(self.ranks))
        self.dealt.append((epoch, samples))
        if first < len(self.ranks):
            self.change()
        return None


def _schedule(rng: random.Random) -> Schedule:
    """Two epochs or so."""
    length = rng.choice([rng.randint(1, 30), rng.randint(30, 1500)])
    options: dict[str, Any] = {"length": length, "seed": rng.randint(0, 9)}
    options["tail"] = rng.choice(["pad", "drop", "carry", "short"])
    if options["tail"] == "short" or rng.random() < 0.5:
        options["global_batch"] = rng.randint(1, 300)
    else:
        options["batch_size"] = rng.randint(1, 20)
    if options["tail"] == "drop":
        options["length"] = max(length, 64 * 20)
    options["shuffle"] = rng.random() < 0.9
    schedule = Schedule(rng, options)
    schedule.change()
    for _ in range(150):
        if schedule.ranks[0].epoch >= 2:
            break
        schedule.step()
    return schedule


def _check(schedule: Schedule) -> None:
    length, tail = schedule.options["length"], schedule.options["tail"]
    states = {json.dumps(cursor.state_dict()) for cursor in schedule.ranks}
    assert len(states) == 1
    cursor = schedule.ranks[0]
    if tail == "carry":
        dealt = [sample for _, samples in schedule.dealt for sample in samples]
        for first in range(0, len(dealt) - length + 1, length):
            assert sorted(dealt[first : first + length]) == list(range(length))
        return
    repeats = 0
    for epoch in range(cursor.epoch + 1):
        count = Counter(s for e, samples in schedule.dealt if e == epoch for s in samples)
        repeats += count.total() - len(count)
        over = epoch < cursor.epoch
        if tail == "drop":
            assert not over or length - len(count) < max(64 * 20, 300)
        else:
            assert not over or len(count) == length, "a sample was left out"
    assert repeats == (cursor.repeated if tail == "pad" else 0)


def test_any_schedule_of_changes_deals_each_sample_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The ranks share the tables of their orders, which they make for themselves in a job."""
    monkeypatch.setattr(order, "shuffled", lru_cache(8)(order.shuffled))
    rng = seeded("schedules of a cursor")
    steps = epochs = 0
    sizes: set[int] = set()
    for _ in range(histories(200, 3_000)):
        seed = rng.getrandbits(64)
        try:
            schedule = _schedule(random.Random(seed))
            _check(schedule)
        except Exception as error:
            raise AssertionError(f"the schedule of seed {seed}: {error!r}") from error
        steps += len(schedule.dealt)
        epochs += schedule.ranks[0].epoch
        sizes |= schedule.sizes
    assert steps > 1000 and epochs > 200 and len(sizes) > 50  # or nothing was tried
