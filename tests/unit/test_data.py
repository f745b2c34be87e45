"""Sharing out data: each sample once per epoch, whatever becomes of the number of ranks."""

from __future__ import annotations

import json
import logging
import os
import random
import subprocess
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from elastic_histories import histories, seeded
from pretended import World, gathered

from hvdlite.data import dealing, of_arrays, strangers
from hvdlite.data.dealing import dealt
from hvdlite.data.sharding import Shard
from hvdlite.data.views import ShardRequest

WORLDS = range(1, 8)
__all__ = ["gathered"]


def shard_of(world: World, length: int, *arguments: Any, **options: Any) -> Shard:
    return Shard(length, *arguments, process_set=world, **options)  # type: ignore[arg-type]


def a_step(shard: Shard, world: World) -> list[int]:
    """Of all ranks, in their order."""
    size = world.size()
    samples: list[int] = []
    for rank in range(size):
        world.place = rank, size
        samples += shard.begin().tolist()
    world.place = 0, size
    shard.whole()
    return samples


def rest_of_epoch(shard: Shard, world: World, most: int = 1 << 30) -> list[list[int]]:
    epoch, steps = shard.epoch, []
    while shard.epoch == epoch and len(steps) < most:
        steps.append(a_step(shard, world))
    return steps


def _a_history(rng: random.Random, length: int, size: int, rest: str) -> None:
    """An epoch that ends with another number of ranks than it began."""
    batch, later = rng.randint(1, 6), rng.choice(WORLDS)
    options = {"shuffle": rng.random() < 0.5, "seed": rng.randint(0, 9), "rest": rest}
    before = World(size)
    shard = shard_of(before, length, batch, **options)
    if rest == "drop" and length < size * batch:
        with pytest.raises(ValueError, match=f"{length} samples are fewer than the {size * batch}"):
            len(shard)
        return
    steps = rest_of_epoch(shard, before, rng.randint(0, len(shard)))
    state = json.loads(json.dumps(shard.state_dict()))
    after = World(later)
    resumed = shard_of(after, length, batch, **options)
    resumed.load_state_dict(state)
    full = later * batch
    if rest == "drop" and length < full:
        return
    expected = len(resumed)
    if shard.epoch == resumed.epoch == 0:
        others = rest_of_epoch(resumed, after)
        assert len(others) == expected and {len(step) for step in others} == {full}
        steps += others
    samples = [sample for step in steps for sample in step]
    if rest == "pad":
        extra = len(samples) - length
        assert 0 <= extra < max(size * batch, full)
        assert sorted(samples[:length]) == list(range(length)), "each sample once"
        whole = shard_of(World(1), length, length, **options).begin().tolist()
        assert samples[length:] == (whole * (extra // length + 1))[:extra], "repeats are the first"
    else:
        assert len(samples) == len(set(samples)) > length - max(size * batch, full)


@pytest.mark.parametrize("rest", ["pad", "drop"])
def test_a_change_of_the_world_at_any_step_deals_each_sample_once(rest: str) -> None:
    rng = seeded(f"data {rest}")
    for _ in range(histories(1, 20)):
        for length in range(1, 201):
            for size in rng.sample(WORLDS, histories(2, 7)):
                _a_history(rng, length, size, rest)


@pytest.mark.parametrize("rest", ["pad", "drop"])
def test_nothing_cannot_be_shared_out(rest: str) -> None:
    for size in WORLDS:
        with pytest.raises(ValueError, match="the length is 0"):
            shard_of(World(size), 0, rest=rest)


# Loops.


def loops(shard: Shard, stop_at: int | None = None) -> list[list[int]]:
    """One loop, which the program leaves in the turn of this number."""
    found = []
    for number, indices in enumerate(shard):
        found.append(indices.tolist())
        if number == stop_at:
            break
    return found


def test_a_loop_is_an_epoch_and_the_next_one_has_another_order() -> None:
    shard = shard_of(World(1), 10, 2)
    first, second = loops(shard), loops(shard)
    assert sorted(sum(first, [])) == sorted(sum(second, [])) == list(range(10))
    assert first != second and shard.epoch == 2
    shard.set_epoch(0)
    assert loops(shard) == first


def test_a_state_saved_in_the_loops_body_counts_its_batch() -> None:
    shard = shard_of(World(1), 10, 2, shuffle=False)
    for number, _ in enumerate(shard, 1):
        assert shard.state_dict()["epoch"] * 10 + shard.state_dict()["sample"] == 2 * number
    before = shard_of(World(1), 10, 2, shuffle=False)
    assert loops(before, stop_at=1) == [[0, 1], [2, 3]]
    resumed = shard_of(World(1), 10, 2, shuffle=False)
    resumed.load_state_dict(before.state_dict())
    resumed.set_epoch(0)
    assert loops(resumed) == [[4, 5], [6, 7], [8, 9]]
    assert resumed.epoch == 1


def test_a_loop_that_was_left_is_not_continued() -> None:
    """Else an evaluation behind a short first one would miss samples."""
    shard = shard_of(World(1), 10, 2, shuffle=False)
    loops(shard, stop_at=1)
    assert len(loops(shard)) == 5 and shard.epoch == 2


def test_steps_of_a_loop_over_something_else_are_recorded() -> None:
    shard = shard_of(World(2), 20, 2)
    shard.record()
    shard.record(2)
    assert shard.sample == 12 and shard.steps_per_epoch == 5 and len(shard) == 2


def test_repeats_can_be_cut_off_behind_a_gather() -> None:
    world = World(2)
    shard = shard_of(world, 7, 2, shuffle=False)
    real = []
    for _ in shard:
        everything = np.arange(4)
        real.append(len(everything[: shard.real(len(everything))]))
    assert real == [4, 3]
    with pytest.raises(ValueError, match="in the loop's body, once per batch"):
        shard.real(4)
    dropping = Shard(10, 2, rest="drop")
    assert dropping.real(10) == 10, "nothing is repeated, ever"


def test_the_rest_is_told_once_and_by_one_rank(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "hvdlite")
    for rank in (0, 1):
        shard = shard_of(World(2, rank), 7, 2)
        loops(shard)
        loops(shard)
    loops(shard_of(World(2), 7, 2, rest="drop"))
    loops(shard_of(World(2), 8, 2))
    told = [record.getMessage() for record in caplog.records]
    assert len(told) == 2
    assert "7 samples" in told[0] and "repeats 1 samples (rest='pad')" in told[0]
    assert "the last 3 samples of each epoch are left out (rest='drop')" in told[1]


def test_a_data_set_smaller_than_the_world() -> None:
    world = World(5)
    assert len(a_step(shard_of(world, 3, 1), world)) == 5
    with pytest.raises(ValueError, match="3 samples are fewer than the 5 of a step of 5 ranks"):
        loops(shard_of(world, 3, 1, rest="drop"))


def test_another_rest_is_refused() -> None:
    with pytest.raises(ValueError, match="'carry': one of pad, drop"):
        shard_of(World(2), 3, rest="carry")


# What ranks compare.

SAME = [100, 4, 1, 0, 7, 2, 40]


@pytest.mark.parametrize(
    ("place", "value", "said"),
    [
        (0, 90, "length is 100 on ranks 0, 2, 90 on rank 1; give each rank the whole data set"),
        (1, 8, "batch_size is 4 on ranks 0, 2, 8 on rank 1"),
        (4, 8, "seed is 7 on ranks 0, 2, 8 on rank 1; give all ranks the same seed"),
        (5, 3, "epoch is 2 on ranks 0, 2, 3 on rank 1; call set_epoch"),
        (6, 0, "sample is 40 on ranks 0, 2, 0 on rank 1; leave loops at the same step"),
    ],
)
def test_a_difference_names_the_ranks_and_what_to_do(place: int, value: int, said: str) -> None:
    other = [*SAME]
    other[place] = value
    assert said in dealing.difference([SAME, other, SAME])


def test_no_difference_and_many_ranks() -> None:
    assert dealing.difference([SAME] * 9) == ""
    many = dealing.difference([[90, *SAME[1:]], *[SAME] * 9])
    assert "90 on rank 0, 100 on ranks 1, 2, 3, 4 and 5 more" in many


def test_a_rank_with_other_data_is_found_at_the_begin(gathered: list[list[int]]) -> None:
    gathered += [[7, 2, 1, 0, 0, 0, 0], [6, 2, 1, 0, 0, 0, 0]]
    with pytest.raises(ValueError, match="length is 7 on rank 0, 6 on rank 1"):
        loops(shard_of(World(2), 7, 2))


# Arrays and lists.


def request_of(world: World, **options: Any) -> ShardRequest:
    given = {"shuffle": None, "seed": 0, "rest": None, "batch_size": None} | options
    return ShardRequest(process_set=world, **given)  # type: ignore[arg-type]


def test_arrays_with_a_batch_size_are_batches_of_the_same_kind() -> None:
    data = {"x": np.arange(10) * 2, "y": (np.arange(10), [str(n) for n in range(10)])}
    found: list[int] = []
    for rank in (0, 1):
        batches = of_arrays.view(data, request_of(World(2, rank), batch_size=2))
        assert len(batches) == 3
        for batch in batches:
            (numbers, texts) = batch["y"]
            assert batch["x"].tolist() == [2 * n for n in numbers.tolist()]
            assert texts == [str(n) for n in numbers.tolist()]
            found += numbers.tolist()
    assert len(found) == 12 and set(found) == set(range(10))


@pytest.mark.parametrize(("rest", "each"), [("pad", 4), ("drop", 3)])
def test_arrays_without_one_become_this_ranks_rows(rest: str, each: int) -> None:
    parts = [
        of_arrays.view(np.arange(10), request_of(World(3, rank), rest=rest)).tolist()
        for rank in range(3)
    ]
    assert [len(part) for part in parts] == [each] * 3
    if rest == "pad":
        assert set(sum(parts, [])) == set(range(10))
    else:
        assert len(set(sum(parts, []))) == 9
    files = of_arrays.view(["a", "b", "c"], request_of(World(3, 1), shuffle=False))
    assert files == ["b"]


def test_what_has_no_rows_is_refused() -> None:
    with pytest.raises(ValueError, match=r"different lengths: \[3, 4\]"):
        of_arrays.view((np.arange(3), np.arange(4)), request_of(World(1)))
    with pytest.raises(TypeError, match="knows no builtins.generator"):
        of_arrays.view((n for n in range(3)), request_of(World(1)))
    with pytest.raises(ValueError, match="no array"):
        of_arrays.view({}, request_of(World(1)))
    with pytest.raises(ValueError, match="2 samples are fewer than the 3"):
        of_arrays.view(["a", "b"], request_of(World(3), rest="drop"))


# Streams.


def _streams(length: int, size: int, rest: str, done: int = 0) -> list[list[int]]:
    return [list(dealt(range(length), rank, size, rest, done)) for rank in range(size)]


@pytest.mark.parametrize("rest", ["pad", "drop"])
def test_a_stream_deals_each_example_once_and_equally_many_to_each_rank(rest: str) -> None:
    for length in range(40):
        for size in WORLDS:
            parts = _streams(length, size, rest)
            dealt_out = sorted(sum(parts, []))
            assert len({len(part) for part in parts}) == 1
            if rest == "drop":
                assert dealt_out == list(range(length // size * size))
            else:
                assert set(dealt_out) == set(range(length))
                assert len(dealt_out) == -(-length // size) * size


def test_a_stream_goes_on_with_another_number_of_ranks() -> None:
    before = [part[:2] for part in _streams(20, 3, "pad")]
    after = _streams(20, 4, "pad", done=6)
    assert sorted(sum(before, [])) == list(range(6))
    assert sorted(set(sum(after, []))) == sorted({*range(6, 20), 0, 1})


def test_a_stream_is_read_once() -> None:
    def once() -> Iterator[int]:
        yield from range(7)

    assert list(dealt(once(), 1, 3, "pad")) == [1, 4, 0]


# --- tf.data's service, which asks for no password


@pytest.mark.parametrize(
    ("users", "interfaces", "why"),
    [
        ([], [("lo", "127.0.0.1")], ""),
        ([], [("lo", "127.0.0.1"), ("eth0", "10.0.0.2"), ("eth0", "fd00::2")], ""),
        (["alice"], [("eth0", "10.0.0.2")], "h has other users (alice)"),
        (list("abcde"), [], "h has other users (a, b, c and 2 more)"),
        (
            [],
            [("eth0", "10.0.0.2"), ("ib0", "10.1.0.2")],
            "h has 2 network interfaces (eth0, ib0)",
        ),
        ([], [("eth0", "8.8.8.8")], "h has the public address 8.8.8.8"),
    ],
)
def test_what_lets_strangers_reach_a_service(
    users: list[str], interfaces: list[tuple[str, str]], why: str
) -> None:
    assert strangers.why_open("h", users, interfaces) == why


def test_a_service_is_open_to_strangers_only_if_the_user_says_so(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(strangers, "others_here", lambda: ["alice"])
    with pytest.raises(RuntimeError, match="alice.*read and write all.*--open-ports"):
        strangers.refuse(open_ports=False)
    strangers.refuse(open_ports=True)
    monkeypatch.setenv("HVDLITE_OPEN_PORTS", "1")
    strangers.refuse(open_ports=False)
    strangers.refuse(open_ports=True, warns=True)
    assert "can run graphs as this user, and so read and write all of this" in caplog.text


@pytest.mark.skipif(os.geteuid() != 0, reason="becoming another user needs root")
def test_people_whose_processes_run_are_other_users() -> None:
    here = set(strangers.others_here())
    assert not here & {"root", "nobody", "daemon"}
    stranger = 54321
    child = subprocess.Popen(["sleep", "600"], preexec_fn=lambda: os.setuid(stranger))
    try:
        assert set(strangers.others_here()) == here | {f"user {stranger}"}
    finally:
        child.kill()
        child.wait()
