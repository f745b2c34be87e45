"""Elastic training with torch: a job whose ranks may die, leave and come while it trains.

    state = hvd.elastic.TorchState(model, optimizer, batch=0)

    @hvd.elastic.run
    def train(state):
        ...
        state.commit()

Names are looked up when they are used, so that `import hvdlite.torch` takes no longer for them.

    state       START HERE: TorchState
    handlers    how its parts are copied, put back and moved to other ranks
    sampler     ElasticSampler
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hvdlite.elastic import *  # noqa: F403
    from hvdlite.elastic import run as run
    from hvdlite.torch.elastic.sampler import ElasticSampler as ElasticSampler
    from hvdlite.torch.elastic.state import TorchState as TorchState

_HOMES = {"ElasticSampler": "sampler", "TorchState": "state"}

__all__ = ["ElasticSampler", "TorchState", "run"]


def __getattr__(name: str) -> Any:
    if name.startswith("_"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = f"{__name__}.{_HOMES[name]}" if name in _HOMES else "hvdlite.elastic"
    value = globals()[name] = getattr(import_module(home), name)
    return value
