"""Data sets of Hugging Face."""

from __future__ import annotations

from typing import Any

from hvdlite.data.of_arrays import part_of
from hvdlite.data.wish import Wish, leave_alone

_STREAM = "an IterableDataset of Hugging Face"


def part(given: Any, wish: Wish) -> Any:
    wish.without_batch_size("a Dataset: make a DataLoader of it and share that out")
    return given.select(part_of(len(given), wish))


def stream(given: Any, wish: Wish) -> Any:
    """Of each group of examples, as many as there are ranks, one; it stays a lazy data set."""
    wish.for_streams(_STREAM)
    (rank, size), rest = wish.place(), wish.rest or "pad"
    shared = getattr(given, "_distributed", None)
    if shared is not None and shared.world_size != size:
        raise ValueError(
            f"split_dataset_by_node() has shared out the data set to {shared.world_size} ranks, "
            f"but there are {size}: leave that to hvd.data.shard, or pass hvd.size()"
        )
    if shared is not None:
        leave_alone(_STREAM, "split_dataset_by_node() has shared it out already")
        return given
    return given.map(
        own,
        batched=True,
        batch_size=size,
        drop_last_batch=rest == "drop",
        features=given.features,
        fn_kwargs={"rank": rank},
    )


def own(group: dict[str, Any], rank: int) -> dict[str, Any]:
    """The rank's example of a group. The last group may have too few, and then repeats some."""
    length = len(next(iter(group.values())))
    return {name: [values[rank % length]] for name, values in group.items()}
