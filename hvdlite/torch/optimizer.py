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

from hvdlite.adapter import elastic, memory, names
from hvdlite.adapter.factors import Mode
from hvdlite.adapter.grouping import Members, positions
from hvdlite.adapter.shared import Shared
from hvdlite.adapter.step import Options, settle
from hvdlite.base.ops import Adasum, Average, Sum
from hvdlite.core.process_sets import ProcessSet, global_process_set
from hvdlite.job.basics import is_initialized, size
from hvdlite.torch import factors, optimizer_state
from hvdlite.torch.adasum import DistributedAdasum
from hvdlite.torch.compression import Compression
from hvdlite.torch.distributed_optimizer import CLOSURE, Distributed
from hvdlite.torch.gradients import GRADIENTS

# What type() makes itself, and what makes the object.
_NOT_TAKEN_OVER = {
    "__init__",
    "__dict__",
    "__weakref__",
    "__module__",
    "__qualname__",
    "__firstlineno__",
}


PARAMETERS = Members("parameter", "parameters", zero=False, expected="a parameter",
                     is_one=lambda member: isinstance(member, torch.Tensor))  # fmt: skip


def _check(optimizer: Any, op: int) -> None:
    if not isinstance(optimizer, torch.optim.Optimizer):
        raise TypeError(f"expected a torch.optim.Optimizer, got {type(optimizer).__name__}")
    if isinstance(optimizer, Distributed):
        raise ValueError("the optimizer is a DistributedOptimizer already")
    if isinstance(optimizer, torch.optim.LBFGS):
        raise ValueError("torch.optim.LBFGS cannot be distributed: " + CLOSURE)
    if op not in (Average, Sum, Adasum):
        raise ValueError(f"op={op!r} is not possible here; use hvd.Average, hvd.Sum or hvd.Adasum")


def _check_compression(optimizer: torch.optim.Optimizer, options: Options) -> None:
    compression = options.compression
    for group in optimizer.param_groups:
        compression.check_momentum(
            {key: group[key] for key in ("momentum", "betas") if group.get(key)}
        )
    if compression.communicate is None:
        return
    arguments = options.arguments()
    for name, possible in (
        ("groups", options.groups is None),
        ("gradient_predivide_factor", options.postscale == 1.0),
        ("op", options.op != Adasum),
    ):
        if not possible:
            raise ValueError(
                f"{name}={arguments[name]!r} is not possible with this compression: its "
                "communicate() replaces the reduction that the option changes"
            )


def DistributedOptimizer(optimizer: torch.optim.Optimizer,
                         named_parameters: Iterable[tuple[str, torch.Tensor]] | None = None,
                         compression: Any = Compression.none, backward_passes_per_step: int = 1,
                         op: int = Average, gradient_predivide_factor: float = 1.0,
                         num_groups: int = 0, groups: Any = None, sparse_as_dense: bool = False,
                         process_set: ProcessSet = global_process_set, *,
                         sufficient_factors: Mode = None) -> Any:  # fmt: skip
    """The optimizer, of the same class, with gradients averaged (or summed, ...) over all ranks
    before each step.

    Gradients are submitted while the backward pass goes on, and waited for in step(). See
    docs/guides/pytorch.md. With sufficient_factors="auto" a linear layer sends the factors of its
    gradient where these are fewer bytes, with True always: see docs/guides/communicating-less.md.
    """
    _check(optimizer, op)
    options = settle(op, gradient_predivide_factor, compression, sparse_as_dense, num_groups,
                     groups, process_set, backward_passes_per_step=backward_passes_per_step,
                     members=PARAMETERS)  # fmt: skip
    _check_compression(optimizer, options)
    options = factors.added(sufficient_factors, options)
    shared = Shared(options, names.check(named_parameters), _rebuild)
    trained = [p for g in optimizer.param_groups for p in g["params"] if p.requires_grad]
    adasum = op == Adasum and size() > 1
    base = type(optimizer)
    kind: Any = type(
        base.__name__,
        (DistributedAdasum if adasum else Distributed, base),
        {"__module__": __name__},
    )
    wrapped = kind.__new__(kind)
    # The same groups, state and hooks. Not its step: learning rate schedules put a function of
    # theirs there.
    optimizer_state.share(optimizer)
    wrapped.__dict__.update(
        {key: value for key, value in optimizer.__dict__.items() if key != "step"}
    )
    wrapped._hvd = shared
    wrapped._parameter_names = {}
    scope = names.scope()
    several = size() > 1 or elastic.enabled() or options.compression.carries_momentum
    if not adasum and several and process_set.included():
        shared.start(scope, GRADIENTS, factors.reducer_for(options))
    wrapped._hvd_adopt()
    memory.keep(
        parameter.device.type for group in wrapped.param_groups for parameter in group["params"]
    )
    if adasum:
        wrapped._begin(scope)
    if shared.reducer is not None:
        numbers = {id(flight.parameter): n for n, flight in enumerate(shared.reducer.flights)}
        for i, group in enumerate(positions(options.groups, trained)):
            shared.reducer.group([numbers[id(trained[place])] for place in group], f"group.{i}")
    return wrapped


def _rebuild(base: Any, state: dict[str, Any], pairs: Any, options: dict[str, Any]) -> Any:
    """From a pickle. In a process without a job: the plain optimizer."""
    optimizer = base.__new__(base)
    optimizer.__setstate__(state)
    return DistributedOptimizer(optimizer, pairs, **options) if is_initialized() else optimizer


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
    base = _users_class(given)
    wrapped = DistributedOptimizer(base(params), *options)
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
        ours = issubclass(kind, Distributed) or not issubclass(kind, torch.optim.Optimizer)
        if not ours and kind is not torch.optim.Optimizer:
            return kind
    raise TypeError(
        f"{given.__name__} has no optimizer of torch among its bases: put one beside "
        "_DistributedOptimizer"
    )


def _above(given: type, base: type) -> list[type]:
    """The library's own classes, the lowest first, so that what stands above replaces it."""
    kinds = [
        kind
        for kind in given.__mro__[: given.__mro__.index(base)]
        if not kind.__module__.startswith("hvdlite.")
    ]
    return kinds[::-1]
