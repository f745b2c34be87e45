"""The classes behind Horovod's DistributedOptimizer, by the names under which libraries import them: for annotations, to derive
from, and to be made of a list of parameters.

Horovod makes the class of an optimizer by copying what stands in these into a class of the user's optimizer; libraries do the same with
classes of their own. Whatever way an object is made, here it gets the class that DistributedOptimizer would give it, with what the
library's class adds.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch

from hvdlite.ops import Adasum, Average
from hvdlite.process_sets import ProcessSet, global_process_set
from hvdlite.torch import optimizer as _optimizer
from hvdlite.torch.compression import Compression

__all__ = ["_DistributedAdasumOptimizer", "_DistributedOptimizer"]

# What type() makes itself, and what makes the object.
_NOT_TAKEN_OVER = {"__init__", "__dict__", "__weakref__", "__module__", "__qualname__", "__firstlineno__"}


class _DistributedOptimizer(_optimizer.Distributed):
    """See the module. `params` are parameters, or groups of them with the options of each."""

    def __init__(
        self,
        params: Any,
        named_parameters: Iterable[tuple[str, torch.Tensor]] | None = None,
        compression: Any = Compression.none,
        backward_passes_per_step: int = 1,
        op: int = Average,
        gradient_predivide_factor: float = 1.0,
        groups: Any = None,
        sparse_as_dense: bool = False,
        process_set: ProcessSet = global_process_set,
    ) -> None:
        _become_distributed(
            self,
            params,
            named_parameters=named_parameters,
            compression=compression,
            backward_passes_per_step=backward_passes_per_step,
            op=op,
            gradient_predivide_factor=gradient_predivide_factor,
            groups=groups,
            sparse_as_dense=sparse_as_dense,
            process_set=process_set,
        )


class _DistributedAdasumOptimizer(_optimizer.Distributed):
    """The same with op=Adasum."""

    def __init__(
        self,
        params: Any,
        named_parameters: Iterable[tuple[str, torch.Tensor]] | None = None,
        compression: Any = Compression.none,
        backward_passes_per_step: int = 1,
    ) -> None:
        _become_distributed(
            self,
            params,
            named_parameters=named_parameters,
            compression=compression,
            backward_passes_per_step=backward_passes_per_step,
            op=Adasum,
        )


def _become_distributed(empty: Any, params: Any, **options: Any) -> None:
    """Fills an object that has neither parameters nor state yet."""
    given = type(empty)
    base = _users_class(given)
    wrapped = _optimizer.DistributedOptimizer(base(params), **options)
    added = {name: value for kind in _above(given, base) for name, value in vars(kind).items()}
    body = {name: value for name, value in added.items() if name not in _NOT_TAKEN_OVER}
    made = type(wrapped)
    if body:  # above what hvdlite adds, so that super() leads to that
        made = type(given.__name__, (made,), {**body, "__module__": given.__module__})
    empty.__class__ = made
    empty.__dict__.update(wrapped.__dict__)


def _users_class(given: type) -> Any:
    """The optimizer that is distributed: what comes behind the library's classes and ours."""
    for kind in given.__mro__[1:]:
        ours = issubclass(kind, _optimizer.Distributed) or not issubclass(kind, torch.optim.Optimizer)
        if not ours and kind is not torch.optim.Optimizer:
            return kind
    raise TypeError(f"{given.__name__} has no optimizer of torch among its bases: put one beside _DistributedOptimizer")


def _above(given: type, base: type) -> list[type]:
    """The library's own classes, the lowest first, so that what stands above replaces it."""
    kinds = [kind for kind in given.__mro__[: given.__mro__.index(base)] if not kind.__module__.startswith("hvdlite.")]
    return kinds[::-1]
