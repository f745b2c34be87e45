"""Libraries that share out their data themselves: rank and size as their arguments, and
`in_step()`, which gives all ranks equally many of their batches."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, TypeVar

import numpy as np

from hvdlite.core.arrays import ops
from hvdlite.core.handles import synchronize
from hvdlite.core.process_sets import ProcessSet, global_process_set
from hvdlite.data.sharding import RESTS, place_of

Batch = TypeVar("Batch")
NodeSplitter = Callable[[Iterable[Any]], Iterator[Any]]
_END: Any = object()


def dali(process_set: ProcessSet = global_process_set) -> dict[str, Any]:
    """Arguments of a reader of NVIDIA DALI: `fn.readers.file(..., name="r", **hvd.data.dali())`.

    By default a reader moves to the next shard after each epoch, and its last batches differ.
    """
    rank, size = place_of(process_set)
    return {"shard_id": rank, "num_shards": size, "stick_to_shard": True, "pad_last_batch": True}


def grain_options(
    drop_remainder: bool = False, process_set: ProcessSet = global_process_set
) -> Any:
    """The `ShardOptions` of a sampler of grain."""
    from grain import sharding

    return sharding.ShardOptions(*place_of(process_set), drop_remainder)


def nodesplitter(process_set: ProcessSet = global_process_set) -> NodeSplitter:
    """For `WebDataset(urls, nodesplitter=hvd.data.nodesplitter())`.

    Webdataset's own `split_by_node` goes by RANK and WORLD_SIZE, which are other launchers'.
    """
    return partial(_every_nth, *place_of(process_set))


def _every_nth(rank: int, size: int, files: Iterable[Any]) -> Iterator[Any]:
    """This rank's files. Processes of a loader take the function along."""
    count = 0
    for count, file in enumerate(files, 1):
        if (count - 1) % size == rank:
            yield file
    if count < size:
        raise ValueError(
            f"{count} files are fewer than the {size} ranks: make more and smaller files, or use "
            "fewer ranks"
        )


def in_step(batches: Iterable[Batch], *, rest: str = "drop",
            process_set: ProcessSet = global_process_set) -> Iterator[Batch]:  # fmt: skip
    """Yields this rank's batches, equally many on all ranks.

    `rest="drop"`: until one rank has no more. `rest="pad"`: until no rank has any, and a rank that
    has no more begins its batches again. Each step takes an allgather of a byte of each rank, which
    is under way while the program trains. All ranks have to leave the loop at the same step.
    """
    if rest not in RESTS:
        raise ValueError(f"rest={rest!r}: one of {', '.join(RESTS)}")
    goes_on = all if rest == "drop" else any
    source = _passes(batches, rest == "pad")
    batch, is_new = next(source)
    asked = _ask(is_new, process_set)
    is_under_way, is_first = True, True
    try:
        while True:
            is_under_way = False
            have = synchronize(asked).tolist()
            if is_first:
                _check_each_has_one(have)
            if not goes_on(have):
                return
            if batch is _END:
                raise ValueError("rest='pad' needs batches that can be iterated over again")
            is_first = False
            following, is_new = next(source)
            asked, is_under_way = _ask(is_new, process_set), True
            yield batch
            batch = following
    finally:
        if is_under_way:
            synchronize(asked)


def _passes(batches: Iterable[Any], again: bool) -> Iterator[tuple[Any, bool]]:
    """The batches, each with whether it is of the first pass. Behind the last one, _END."""
    is_new, found = True, True
    while found and (is_new or again):
        found = False
        for batch in batches:
            found = True
            yield batch, is_new
        is_new = False
    while True:
        yield _END, False


def _ask(has_new: bool, process_set: ProcessSet) -> int:
    """Which ranks have a batch of their first pass?"""
    return ops.allgather_async(np.array([has_new], np.uint8), process_set=process_set)


def _check_each_has_one(have: list[int]) -> None:
    empty = [rank for rank, has in enumerate(have) if not has]
    if empty and len(empty) < len(have):
        raise ValueError(
            f"ranks {empty} of {len(have)} have no batch at all: there are fewer files or samples "
            "than ranks"
        )
