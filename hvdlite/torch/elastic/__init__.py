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
    from hvdlite.torch.in_place.loop import GoingOn as GoingOn
    from hvdlite.torch.in_place.loop import going_on as going_on

_HOMES = {
    "ElasticSampler": f"{__name__}.sampler",
    "GoingOn": "hvdlite.torch.in_place.loop",
    "TorchState": f"{__name__}.state",
    "going_on": "hvdlite.torch.in_place.loop",
}

__all__ = ["ElasticSampler", "GoingOn", "TorchState", "going_on", "run"]


def __getattr__(name: str) -> Any:
    if name.startswith("_"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = _HOMES.get(name, "hvdlite.elastic")
    value = globals()[name] = getattr(import_module(home), name)
    return value
