"""Numpy arrays, dicts and tuples of them, and lists: batches, or this rank's part."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from hvdlite.data.order import Indices
from hvdlite.data.sharding import Shard
from hvdlite.data.views import Counted, ShardRequest


def view(data: Any, request: ShardRequest) -> Any:
    length = _length(data)
    if request.batch_size is None:
        return taken(data, part_of(length, request))
    return ArrayBatches(data, request.dealt(length, request.batch_size))


class ArrayBatches(Counted):
    """The batches of this rank, each of the kind of the whole. A loop is an epoch."""

    def __init__(self, data: Any, shard: Shard) -> None:
        super().__init__(shard)
        self._data = data

    def __iter__(self) -> Iterator[Any]:
        for indices in self.shard:
            yield taken(self._data, indices)


def part_of(length: int, request: ShardRequest) -> Indices:
    """This rank's samples, for what has no epochs: the epoch is one step of all ranks."""
    _, size = request.place()
    each = length // size if request.rest == "drop" else -(-length // size)
    shard = request.dealt(length, max(each, 1))
    shard.start()
    return shard.begin()


def taken(data: Any, indices: Indices) -> Any:
    """Of each array these rows; of a list these objects."""
    return mapped(data, lambda each: _rows(each, indices))


def mapped(data: Any, work: Callable[[Any], Any]) -> Any:
    if isinstance(data, Mapping):
        return {name: mapped(value, work) for name, value in data.items()}
    if isinstance(data, tuple):
        return tuple(mapped(value, work) for value in data)
    return work(data)


def _rows(each: Any, indices: Indices) -> Any:
    if isinstance(each, list):
        return [each[index] for index in indices.tolist()]
    return each[indices]


def _length(data: Any) -> int:
    lengths: list[int] = []
    mapped(data, lambda each: lengths.append(_rows_of(each)))
    if len(set(lengths)) > 1:
        raise ValueError(f"hvd.data.shard: the arrays have different lengths: {lengths}")
    if not lengths:
        raise ValueError("hvd.data.shard: there is no array in the data")
    return lengths[0]


def _rows_of(each: Any) -> int:
    if isinstance(each, list) or getattr(each, "shape", None):
        return len(each)
    raise TypeError(
        f"hvd.data.shard knows no {type(each).__module__}.{type(each).__qualname__}: it takes a "
        "loader or data set of torch, TensorFlow, Keras, grain or Hugging Face, arrays and dicts "
        "of arrays, or a list. Use hvd.data.Shard(length, batch_size) for what has other samples"
    )
