"""Grain's data sets."""

from __future__ import annotations

from typing import Any

import grain

from hvdlite.data.of_arrays import part_of
from hvdlite.data.wish import Wish


def part(given: Any, wish: Wish) -> Any:
    wish.without_batch_size("a MapDataset: call batch() on what hvd.data.shard returns")
    return grain.MapDataset.source(Part(given, part_of(len(given), wish).tolist()))


def refuse(given: Any, wish: Wish) -> Any:
    raise ValueError(
        "hvd.data.shard takes a MapDataset of grain: share that out before to_iter_dataset(), or "
        "pass hvd.data.grain_options() to the sampler"
    )


class Part:
    """Some elements of a data set, as a source of another one."""

    def __init__(self, given: Any, indices: list[int]) -> None:
        self._given = given
        self._indices = indices

    def __len__(self) -> int:
        return len(self._indices)

    def __getitem__(self, number: int) -> Any:
        return self._given[self._indices[number]]
