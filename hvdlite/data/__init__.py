"""Data for all ranks: each sample once per epoch, and equally many batches on each rank.

    loader = hvd.data.shard(DataLoader(dataset, batch_size=32, shuffle=True))
    for epoch in range(90):
        for x, y in loader:
            ...

docs/guides/data.md tells the whole story. Names are looked up when they are used: a framework is
imported only by a program that has imported it already, or that asks for it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hvdlite.data.arguments import dali as dali
    from hvdlite.data.arguments import grain_options as grain_options
    from hvdlite.data.arguments import nodesplitter as nodesplitter
    from hvdlite.data.cursor import Cursor as Cursor
    from hvdlite.data.sharding import Shard as Shard
    from hvdlite.data.together import in_step as in_step
    from hvdlite.data.views import shard as shard

_HOMES = {
    "Cursor": "cursor",
    "Shard": "sharding",
    "dali": "arguments",
    "grain_options": "arguments",
    "in_step": "together",
    "nodesplitter": "arguments",
    "shard": "views",
}

__all__ = ["Cursor", "Shard", "dali", "grain_options", "in_step", "nodesplitter", "shard"]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value
