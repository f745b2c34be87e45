"""Data for all ranks: each sample once per epoch, and equally many batches on each rank.

    loader = hvd.data.shard(DataLoader(dataset, batch_size=32, shuffle=True))
    for epoch in range(90):
        for x, y in loader:
            ...

docs/guides/data.md tells the whole story. Names are looked up when they are used: a framework is
imported only by a program that has imported it already, or that asks for it.

    views            START HERE: shard(), which returns the same kind of object for this rank
    of_arrays        views of numpy arrays, dicts, tuples and lists
    of_torch         views of torch's DataLoader and data sets
    of_tensorflow    a view of tf.data.Dataset
    of_keras         a view of Keras' PyDataset
    of_others        views of Hugging Face's, grain's and WebDataset's data sets
    sharding         Shard: the cursor of a process set, whose ranks compare their data
    cursor           Cursor: where the job is in its data; the samples of the steps to come
    dealing          decides which samples a step takes, and which of them each rank
    order            decides the order of an epoch
    self_sharded     arguments of libraries that share out their data themselves, and in_step()
    compute_service  tf.data's service on the ranks of another job
    compute_worker   the program of that other job
    strangers        decides whether that service would be open to strangers
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hvdlite.data.cursor import Cursor as Cursor
    from hvdlite.data.self_sharded import dali as dali
    from hvdlite.data.self_sharded import grain_options as grain_options
    from hvdlite.data.self_sharded import in_step as in_step
    from hvdlite.data.self_sharded import nodesplitter as nodesplitter
    from hvdlite.data.sharding import Shard as Shard
    from hvdlite.data.views import shard as shard

_HOMES = {
    "Cursor": "cursor", "Shard": "sharding", "dali": "self_sharded", "in_step": "self_sharded",
    "grain_options": "self_sharded", "nodesplitter": "self_sharded", "shard": "views",
}  # fmt: skip

__all__ = ["Cursor", "Shard", "dali", "grain_options", "in_step", "nodesplitter", "shard"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    return value
