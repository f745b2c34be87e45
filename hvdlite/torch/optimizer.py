"""DistributedOptimizer: the user's optimizer, whose gradients are those of all ranks.

Horovod makes the class of an optimizer by copying what stands in `_DistributedOptimizer` into a
class of the user's optimizer; libraries import that name for annotations, derive from it, make
objects of it with a list of parameters, and copy it in the same way into classes of their own.
Whatever way an object is made, here it gets the class that DistributedOptimizer would give it, with
what the library's class adds.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch

from hvdlite.adapter.local.factors import Mode
from hvdlite.adapter.step import options_of
from hvdlite.adapter.strategy import Strategy, Support, apply
from hvdlite.base.ops import Adasum, Average
from hvdlite.core.process_sets import ProcessSet, global_process_set
from hvdlite.torch import factors
from hvdlite.torch.compression import Compression
from hvdlite.torch.distributed_optimizer import Distributed, users_class
from hvdlite.torch.strategies.large_batch import replacement
from hvdlite.torch.strategies.local_steps import DiLoCo, LocalSGD
from hvdlite.torch.wrapping import PARAMETERS, distribute

_SUPPORT = Support(
    "hvdlite.torch", Compression, {"local_sgd": LocalSGD, "diloco": DiLoCo}, replacement
)


# What type() makes itself, and what makes the object.
_NOT_TAKEN_OVER = set(
    "__init__ __dict__ __weakref__ __module__ __qualname__ __firstlineno__".split()
)


def DistributedOptimizer(optimizer: torch.optim.Optimizer,
                         named_parameters: Iterable[tuple[str, torch.Tensor]] | None = None,
                         compression: Any = Compression.none, backward_passes_per_step: int = 1,
                         op: int = Average, gradient_predivide_factor: float = 1.0,
                         num_groups: int = 0, groups: Any = None, sparse_as_dense: bool = False,
                         process_set: ProcessSet = global_process_set, *,
                         sufficient_factors: Mode = None,
                         strategy: Strategy | None = None) -> Any:  # fmt: skip
    """The optimizer, of the same class, with gradients averaged (or summed, ...) over all ranks
    before each step.

    Gradients are submitted while the backward pass goes on, and waited for in step(). See
    docs/guides/pytorch.md. With sufficient_factors="auto" a linear layer sends the factors of its
    gradient where these are fewer bytes, with True always: see docs/guides/communicating-less.md.
    `strategy` says several of these, and local steps or a large batch: see docs/guides/strategy.md.
    """
    if strategy is not None:
        return apply(strategy, _SUPPORT, DistributedOptimizer, optimizer,
                     named_parameters=named_parameters, compression=compression,
                     backward_passes_per_step=backward_passes_per_step, op=op,
                     gradient_predivide_factor=gradient_predivide_factor, num_groups=num_groups,
                     groups=groups, sparse_as_dense=sparse_as_dense, process_set=process_set,
                     sufficient_factors=sufficient_factors)  # fmt: skip
    options = options_of(op, gradient_predivide_factor, compression, sparse_as_dense, num_groups,
                         groups, process_set, backward_passes_per_step=backward_passes_per_step,
                         members=PARAMETERS)  # fmt: skip
    return distribute(optimizer, named_parameters, factors.added(sufficient_factors, options))


class _DistributedOptimizer(Distributed):
    """See the module. `params` are parameters, or groups of them with the options of each."""

    def __init__(self, params: Any,
                 named_parameters: Iterable[tuple[str, torch.Tensor]] | None = None,
                 compression: Any = Compression.none, backward_passes_per_step: int = 1,
                 op: int = Average, gradient_predivide_factor: float = 1.0, groups: Any = None,
                 sparse_as_dense: bool = False,
                 process_set: ProcessSet = global_process_set) -> None:  # fmt: skip
        _become_distributed(self, params, named_parameters, compression, backward_passes_per_step,
                            op, gradient_predivide_factor, 0, groups, sparse_as_dense,
                            process_set)  # fmt: skip


class _DistributedAdasumOptimizer(Distributed):
    """The same with op=Adasum."""

    def __init__(self, params: Any,
                 named_parameters: Iterable[tuple[str, torch.Tensor]] | None = None,
                 compression: Any = Compression.none,
                 backward_passes_per_step: int = 1) -> None:  # fmt: skip
        _become_distributed(
            self, params, named_parameters, compression, backward_passes_per_step, Adasum
        )


def _become_distributed(empty: Any, params: Any, *options: Any) -> None:
    """Fills an object that has neither parameters nor state yet."""
    given = type(empty)
    base = users_class(given)
    wrapped = DistributedOptimizer(base(params), *options)
    above = [k for k in given.__mro__[: given.__mro__.index(base)] if not _is_ours(k)]
    # The library's own classes, the lowest first, so that what stands above replaces it.
    added = {name: value for kind in reversed(above) for name, value in vars(kind).items()}
    body = {name: value for name, value in added.items() if name not in _NOT_TAKEN_OVER}
    made = type(wrapped)
    if body:  # above what hvdlite adds, so that super() leads to that
        made = type(given.__name__, (made,), {**body, "__module__": given.__module__})
    empty.__class__ = made
    empty.__dict__.update(wrapped.__dict__)


def _is_ours(kind: type) -> bool:
    return kind.__module__.startswith("hvdlite.")
