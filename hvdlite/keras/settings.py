"""What DistributedOptimizer was asked for, checked."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from hvdlite.adapter import names
from hvdlite.adapter.compression import Settled
from hvdlite.base.ops import Average, Sum
from hvdlite.core.process_sets import ProcessSet
from hvdlite.job.basics import is_initialized, size
from hvdlite.keras.backends import Way


@dataclass(frozen=True)
class Settings:
    way: Way
    compression: Settled
    sparse_as_dense: bool
    groups: int | Sequence[Sequence[Any]] | None  # how many, or the variables of each
    passes: int  # so many steps add up locally before gradients travel
    average_passes: bool
    scale_local: bool
    scope: str  # before the names of what travels: each optimizer of a program has its own

    @property
    def reduces(self) -> bool:
        """Whether this rank has others to reduce with."""
        process_set = self.way.process_set
        if not process_set.included():
            return False
        return (process_set.size() or 1) > 1 or "1" in (
            os.environ.get("HVDLITE_ELASTIC"), os.environ.get("HOROVOD_ELASTIC")
        )  # fmt: skip


def settle(
    *,
    compression: Any,
    sparse_as_dense: bool,
    gradient_predivide_factor: float,
    op: int,
    backward_passes_per_step: int,
    average_aggregated_gradients: bool,
    num_groups: int,
    groups: Any,
    process_set: ProcessSet,
    scale_local_gradients: bool,
) -> Settings:
    """A ValueError with a sentence for what cannot be."""
    if not is_initialized():
        size()  # says that hvd.init() is missing
    if op not in (Average, Sum):
        raise ValueError("op currently only supports Average and Sum: for Adasum use hvdlite.torch, or hvd.allreduce")
    if gradient_predivide_factor != 1.0 and op != Average:
        raise ValueError("gradient_predivide_factor not supported with op != Average")
    if backward_passes_per_step <= 0:
        raise ValueError("backward_passes_per_step must be > 0")
    if num_groups != 0:
        warnings.warn("num_groups= is deprecated, use groups=", DeprecationWarning, stacklevel=3)
        groups = num_groups if groups is None else groups
    settled = Settled(compression)
    if settled.communicate is not None:
        raise ValueError(
            "a compressor with communicate() sends by its own means, which a compiled Keras step cannot: "
            "leave communicate() out, or train with hvdlite.torch"
        )
    # The core divides by the number of ranks for Average; the factor is split around it.
    factor = float(gradient_predivide_factor)
    return Settings(
        Way(op, 1.0 / factor, factor, process_set),
        settled,
        sparse_as_dense,
        _check_groups(groups),
        backward_passes_per_step,
        average_aggregated_gradients,
        scale_local_gradients,
        names.scope(),
    )


def _check_groups(groups: Any) -> int | Sequence[Sequence[Any]] | None:
    if groups is None or groups == 0:
        return None
    if isinstance(groups, int) and not isinstance(groups, bool) and groups > 0:
        return groups
    if not isinstance(groups, Iterable) or any(not isinstance(group, (list, tuple)) for group in groups):
        raise ValueError(f"groups should be a non-negative integer or a list of lists of variables, not {groups!r}")
    lists = [list(group) for group in groups]
    ids = [id(variable) for group in lists for variable in group]
    if len(set(ids)) < len(ids):
        raise ValueError("groups: a variable must not be in them more than once")
    return lists
