"""Gives an optimizer of torch the class that reduces gradients."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch

from hvdlite.adapter import elastic, names, pool
from hvdlite.adapter.hooks.reducer import Reduction
from hvdlite.adapter.step import Members, Options, options_of, positions
from hvdlite.base.ops import Adasum, Average, Sum
from hvdlite.job.basics import is_initialized, size
from hvdlite.torch import factors
from hvdlite.torch.adasum import DistributedAdasum
from hvdlite.torch.compression.onebit import OneBitAdam
from hvdlite.torch.distributed_optimizer import CLOSURE, Distributed, refuse_twice, share
from hvdlite.torch.gradients import GRADIENTS

PARAMETERS = Members("parameter", "parameters", zero=False, expected="a parameter",
                     is_one=lambda member: isinstance(member, torch.Tensor))  # fmt: skip


def _check(optimizer: Any, op: int) -> None:
    if not isinstance(optimizer, torch.optim.Optimizer):
        raise TypeError(f"expected a torch.optim.Optimizer, got {type(optimizer).__name__}")
    refuse_twice(optimizer)
    if isinstance(optimizer, OneBitAdam):
        raise ValueError(
            "hvd.OneBitAdam communicates by itself in step(): use it as it is, without "
            "hvd.DistributedOptimizer, hvd.LocalSGD or hvd.DiLoCo"
        )
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
    decays = [group.get("weight_decay", 0.0) for group in optimizer.param_groups]
    compression.warn_of_decay(max(decays, default=0.0), stacklevel=4)
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


def distribute(optimizer: torch.optim.Optimizer,
               named_parameters: Iterable[tuple[str, torch.Tensor]] | None,
               options: Options) -> Any:  # fmt: skip
    """The optimizer, of the same class, whose gradients are reduced as the options say."""
    _check(optimizer, options.op)
    _check_compression(optimizer, options)
    shared = Reduction(options, names.check(named_parameters), _rebuild)
    trained = [p for g in optimizer.param_groups for p in g["params"] if p.requires_grad]
    adasum = options.op == Adasum and size() > 1
    base = type(optimizer)
    kind: Any = type(
        base.__name__,
        (DistributedAdasum if adasum else Distributed, base),
        {"__module__": "hvdlite.torch.optimizer"},  # as Horovod's
    )
    wrapped = kind.__new__(kind)
    # The same groups, state and hooks. Not its step: learning rate schedules put a function of
    # theirs there.
    share(optimizer)
    wrapped.__dict__.update(
        {key: value for key, value in optimizer.__dict__.items() if key != "step"}
    )
    wrapped._hvd = shared
    wrapped._parameter_names = {}
    scope = names.scope()
    several = size() > 1 or elastic.enabled() or options.compression.carries_momentum
    if not adasum and several and options.process_set.included():
        shared.start(scope, GRADIENTS, factors.reducer_for(options))
    wrapped._hvd_adopt()
    pool.keep_memory(
        parameter.device.type for group in wrapped.param_groups for parameter in group["params"]
    )
    if adasum:
        wrapped._begin(scope)
    if shared.reducer is not None:
        numbers = {id(entry.parameter): n for n, entry in enumerate(shared.reducer.entries)}
        for i, group in enumerate(positions(options.groups, trained)):
            shared.reducer.group([numbers[id(trained[place])] for place in group], f"group.{i}")
    return wrapped


def _rebuild(base: Any, state: dict[str, Any], pairs: Any, options: dict[str, Any]) -> Any:
    """From a pickle. In a process without a job: the plain optimizer."""
    optimizer = base.__new__(base)
    optimizer.__setstate__(state)
    if not is_initialized():
        return optimizer
    mode = options.pop("sufficient_factors")
    given = options_of(**options, members=PARAMETERS)
    return distribute(optimizer, pairs, factors.added(mode, given))
