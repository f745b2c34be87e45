"""Which gradients travel together: DistributedOptimizer's `groups`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from hvdlite.adapter.grouping import equal_parts


def groups_of(groups: Any, parameters: Sequence[torch.Tensor]) -> list[list[torch.Tensor]]:
    """`groups`: None, how many, or lists of parameters. Who is in no list travels alone."""
    if groups is None:
        return []
    if isinstance(groups, int) and not isinstance(groups, bool) and groups > 0:
        return [[parameters[i] for i in part] for part in equal_parts(len(parameters), groups)]
    if not isinstance(groups, list):
        raise ValueError(f"groups should be a positive integer or a list of lists of parameters, not {groups!r}")
    seen: set[int] = set()
    for group in groups:
        if not isinstance(group, (list, tuple)):
            raise ValueError("groups should be a list of lists of parameters")
        for parameter in group:
            if not isinstance(parameter, torch.Tensor):
                raise ValueError(f"groups: expected a parameter, got {type(parameter).__name__}")
            if id(parameter) in seen:
                raise ValueError("groups: a parameter must not be in them more than once")
            seen.add(id(parameter))
    return [list(group) for group in groups]
