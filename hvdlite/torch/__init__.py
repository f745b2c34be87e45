"""Horovod's API for PyTorch.

    import hvdlite.torch as hvd

    hvd.init()
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)

docs/guides/pytorch.md tells the whole story.

    api            START HERE: all public names; torch loads parts of this package in programs that
                   use nothing but its backend of torch.distributed, so names are looked up lazily
    ops            the collectives, with Horovod's signatures
    optimizer      DistributedOptimizer, and what torch has for the parts of a hvd.Strategy
    wrapping       checks an optimizer and gives it the class that reduces gradients
    distributed_optimizer    that class; an optimizer's state goes from rank to rank
    adasum         the same for op=hvd.Adasum
    gradients      torch's primitives for adapter's reducer
    framework      torch's primitives for hvdlite.core
    functions      broadcast_parameters() and its like
    sparse         gradients of embeddings
    memory         tensors and gradients in memory that the ranks of a host share
    scaling        what torch's GradScaler and its like find in an optimizer
    replicas       torch's parameters for the drift guard
    ddp            hooks for DistributedDataParallel
    sync_batch_norm    SyncBatchNorm
    traced         collectives as operators, for torch.compile
    older          what is done instead with older versions of torch
    mpi_lib_v2     a name of Horovod's
    compression    hvd.Compression, and hvd.OneBitAdam
    strategies     local steps, large batches
    factors        the factors of a linear layer's gradient travel instead of the gradient
    elastic        TorchState, ElasticSampler
    in_place       loops that go on where they are when ranks die and come
    distributed    the backend "hvdlite" of torch.distributed
    autoload       what torch calls at its import to find that backend
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
    names: list[str] = import_module("hvdlite.job.public").listed(__getattr__("__all__"))
    return names
