"""tf.data: a Dataset of this rank's elements."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import tensorflow as tf

from hvdlite.data.views import ShardRequest, leave_alone

_KIND = "a tf.data.Dataset"


def dataset(given: Any, request: ShardRequest) -> Any:
    """Of each group of elements, as many as there are ranks, one."""
    request.for_streams(_KIND)
    before = {type(each).__name__: each for each in _chain(given)}
    if "_ShardDataset" in before:
        return leave_alone(given, _KIND, "Dataset.shard() has")
    for each in _chain(given):
        _check_shuffle(each)
    (rank, size), rest = request.place(), request.rest or "pad"
    length = int(given.cardinality())
    if length == tf.data.INFINITE_CARDINALITY or size == 1:
        return given.shard(size, rank)
    if length == tf.data.UNKNOWN_CARDINALITY:
        return _by_groups(given, rank, size, rest)
    shard = request.dealt(length, 1, shuffle=False)
    shard.start()
    return _whole_groups(given, length, shard.steps_per_epoch * size).shard(size, rank)


def _whole_groups(given: Any, length: int, total: int) -> Any:
    if total <= length:
        return given.take(total)
    return given.concatenate(given.repeat().take(total - length))


def _by_groups(given: Any, rank: int, size: int, rest: str) -> Any:
    """Only the last element tells how many there are."""

    def own(*parts: Any) -> Any:
        group = tf.data.Dataset.zip(parts if isinstance(given.element_spec, tuple) else parts[0])
        if rest == "pad":
            group = group.concatenate(given.take(size).repeat())
        return group.skip(rank).take(1)

    return given.window(size, drop_remainder=rest == "drop").flat_map(own)


def _chain(given: Any) -> Iterator[Any]:
    """The dataset and all that it is made of."""
    yield given
    for each in given._inputs():
        yield from _chain(each)


def _check_shuffle(each: Any) -> None:
    """Each rank deals its own order if the order is random."""
    if type(each).__name__ != "_ShuffleDataset" or not tf.executing_eagerly():
        return
    if int(each._seed) == 0 and int(each._seed2) == 0:
        raise ValueError(
            "the tf.data.Dataset is shuffled without a seed, so each rank would deal samples of "
            "another order, some twice and some never: pass seed= to shuffle(), the same on all "
            "ranks, or shuffle what hvd.data.shard returns"
        )
