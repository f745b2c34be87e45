"""Data sets of Hugging Face, of grain and of WebDataset."""

from __future__ import annotations

from typing import Any

from hvdlite.data.of_arrays import part_of
from hvdlite.data.views import ShardRequest, leave_alone

_STREAM = "an IterableDataset of Hugging Face"


def hugging_face(given: Any, request: ShardRequest) -> Any:
    request.without_batch_size("a Dataset: make a DataLoader of it and share that out")
    return given.select(part_of(len(given), request))


def hugging_face_stream(given: Any, request: ShardRequest) -> Any:
    """Of each group of examples, as many as there are ranks, one; it stays a lazy data set."""
    request.for_streams(_STREAM)
    (rank, size), rest = request.place(), request.rest or "pad"
    shared = getattr(given, "_distributed", None)
    if shared is not None and shared.world_size != size:
        raise ValueError(
            f"split_dataset_by_node() has shared out the data set to {shared.world_size} ranks, "
            f"but there are {size}: leave that to hvd.data.shard, or pass hvd.size()"
        )
    if shared is not None:
        return leave_alone(given, _STREAM, "split_dataset_by_node() has")
    return given.map(_own, batched=True, batch_size=size, drop_last_batch=rest == "drop",
                     features=given.features, fn_kwargs={"rank": rank})  # fmt: skip


def _own(group: dict[str, Any], rank: int) -> dict[str, Any]:
    """The rank's example of a group. The last group may have too few, and then repeats some."""
    length = len(next(iter(group.values())))
    return {name: [values[rank % length]] for name, values in group.items()}


def grain_map(given: Any, request: ShardRequest) -> Any:
    import grain

    request.without_batch_size("a MapDataset: call batch() on what hvd.data.shard returns")
    return grain.MapDataset.source(_GrainPart(given, part_of(len(given), request).tolist()))


def refuse_grain_iter(given: Any, request: ShardRequest) -> Any:
    raise ValueError(
        "hvd.data.shard takes a MapDataset of grain: share that out before to_iter_dataset(), or "
        "pass hvd.data.grain_options() to the sampler"
    )


class _GrainPart:
    """Some elements of a data set, as a source of another one."""

    def __init__(self, given: Any, indices: list[int]) -> None:
        self._given = given
        self._indices = indices

    def __len__(self) -> int:
        return len(self._indices)

    def __getitem__(self, number: int) -> Any:
        return self._given[self._indices[number]]


def refuse_webdataset(given: Any, request: ShardRequest) -> Any:
    raise ValueError(
        "a WebDataset shares out its files itself: make it with "
        "nodesplitter=hvd.data.nodesplitter(), and pass its loader to hvd.data.in_step(), which "
        "gives all ranks equally many batches"
    )
