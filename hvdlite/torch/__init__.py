"""Horovod's API for PyTorch.

    import hvdlite.torch as hvd

    hvd.init()
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)

docs/guides/pytorch.md tells the whole story.

Names are looked up lazily, in `api`: torch imports parts of this package in programs that use
nothing but its backend of torch.distributed.
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hvdlite.torch.api import *  # noqa: F403
    from hvdlite.torch.api import __all__ as __all__

# Under the name that Horovod's programs import, for all of these.
mpi_ops = sys.modules[__name__]
sys.modules[f"{__name__}.mpi_ops"] = mpi_ops


def __getattr__(name: str) -> Any:
    if not name.startswith("_") and find_spec(f"{__name__}.{name}"):
        return import_module(f"{__name__}.{name}")
    api = import_module("hvdlite.torch.api")
    if name == "__all__":
        return [*api.__all__, "mpi_ops"]
    if not hasattr(api, name):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(api, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__getattr__("__all__"))
