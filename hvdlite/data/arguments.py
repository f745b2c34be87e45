"""Rank and size as the arguments of libraries that share out their data themselves."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from hvdlite.core.process_sets import ProcessSet, global_process_set
from hvdlite.data.sharding import place_in


def dali(process_set: ProcessSet = global_process_set) -> dict[str, Any]:
    """Arguments of a reader of NVIDIA DALI: `fn.readers.file(..., name="r", **hvd.data.dali())`.

    By default a reader moves to the next shard after each epoch, and its last batches differ.
    """
    rank, size = _place(process_set)
    return {
        "shard_id": rank,
        "num_shards": size,
        "stick_to_shard": True,
        "pad_last_batch": True,
    }


def grain_options(
    drop_remainder: bool = False, process_set: ProcessSet = global_process_set
) -> Any:
    """The `ShardOptions` of a sampler of grain."""
    from grain import sharding

    rank, size = _place(process_set)
    return sharding.ShardOptions(rank, size, drop_remainder)


def nodesplitter(process_set: ProcessSet = global_process_set) -> NodeSplitter:
    """For `WebDataset(urls, nodesplitter=hvd.data.nodesplitter())`.

    Webdataset's own `split_by_node` goes by RANK and WORLD_SIZE, which are other launchers'.
    """
    return NodeSplitter(*_place(process_set))


class NodeSplitter:
    """Every n-th file. Processes of a loader take it along."""

    def __init__(self, rank: int, size: int) -> None:
        self._rank = rank
        self._size = size

    def __call__(self, files: Iterable[Any]) -> Iterator[Any]:
        count = 0
        for count, file in enumerate(files, 1):
            if (count - 1) % self._size == self._rank:
                yield file
        if count < self._size:
            raise ValueError(
                f"{count} files are fewer than the {self._size} ranks: make more and smaller "
                "files, or use fewer ranks"
            )


def _place(process_set: ProcessSet) -> tuple[int, int]:
    rank, size = place_in(process_set)
    return rank(), size()
