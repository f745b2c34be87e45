"""What a program asks of the reduction of a step's gradients: Horovod's arguments, checked once."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from hvdlite.adapter import elastic
from hvdlite.adapter.compression import Compressor, Settled
from hvdlite.adapter.factors import Mode
from hvdlite.adapter.grouping import VARIABLES, Groups, Members
from hvdlite.base.ops import Adasum, Average
from hvdlite.core.process_sets import ProcessSet, global_process_set, set_id_of
from hvdlite.exceptions import NotInitializedError
from hvdlite.job import basics

NO_COMPRESSION = Settled(Compressor())


@dataclass(frozen=True)
class Options:
    """How the gradients of a step are reduced."""

    op: int
    prescale: float
    postscale: float
    compression: Settled = NO_COMPRESSION
    sparse_as_dense: bool = False
    groups: Groups = None
    process_set: ProcessSet = global_process_set
    scale_local: bool = True  # gradients that stay on their rank are divided by the number of ranks
    passes: int = 1  # so many backward passes add up before gradients travel
    average_passes: bool = False
    sufficient_factors: Mode = None
    scope: str = ""  # before the names of what travels: each optimizer of a program has its own
    # the names are the same at once and in a compiled program, where others may run at the same
    # time: one such reduction is under way at most
    fixed_names: bool = False

    def arguments(self) -> dict[str, Any]:
        """The arguments of torch's DistributedOptimizer, of which it makes these options."""
        return {
            "op": self.op, "gradient_predivide_factor": self.postscale,
            "compression": self.compression.given, "sparse_as_dense": self.sparse_as_dense,
            "groups": self.groups, "process_set": self.process_set,
            "backward_passes_per_step": self.passes,
            "sufficient_factors": self.sufficient_factors,
        }  # fmt: skip

    def way(self) -> str:
        """In words: how gradients are sent. All ranks must say the same."""
        factors = self.sufficient_factors
        return f"{self.compression}{f' and sufficient_factors={factors!r}' if factors else ''}"

    def takes_part(self) -> bool:
        """Whether this rank is in the process set. Raises an error that says what is missing."""
        if not basics.is_initialized():  # the process would train alone, and say nothing
            raise NotInitializedError()
        set_id_of(self.process_set)
        return bool(self.process_set.included())

    def reduces(self) -> bool:
        """Whether gradients have a way to go: there are other ranks, an elastic job may get them
        later, or the compression carries momentum, which one rank needs as well."""
        if not self.takes_part():
            return False
        several = (self.process_set.size() or 1) > 1 or elastic.enabled()
        return several or self.compression.carries_momentum


def check_passes(passes: int) -> int:
    if passes <= 0:
        raise ValueError("backward_passes_per_step must be 1 or more")
    return passes


def settle(
    op: int, gradient_predivide_factor: float, compression: Any, sparse_as_dense: bool = False,
    num_groups: int = 0, groups: Any = None, process_set: ProcessSet = global_process_set,
    scale_local_gradients: bool = True, backward_passes_per_step: int = 1,
    average_aggregated_gradients: bool = False, *, members: Members = VARIABLES,
) -> Options:  # fmt: skip
    """For the function that a program calls: a warning names that program's line. `members`: what
    `groups` lists."""
    if gradient_predivide_factor != 1.0 and op != Average:
        raise ValueError(
            "gradient_predivide_factor splits the division that only op=hvd.Average makes: leave "
            "it out"
        )
    if op == Adasum and process_set.process_set_id != 0:
        raise NotImplementedError("op=hvd.Adasum works on all ranks only, not in process sets")
    if num_groups != 0:
        warnings.warn("num_groups= is deprecated, use groups=", DeprecationWarning, stacklevel=3)
        groups = num_groups if groups is None else groups
    settled = Settled(compression)
    if settled.method is not None:
        if groups is not None:
            raise ValueError(
                f"groups={groups!r} is not possible with {settled}: each tensor travels by itself"
            )
        if op == Adasum:
            raise ValueError(f"op=hvd.Adasum is not possible with {settled}: it adds gradients up")
    # The core divides by the number of ranks for Average; the factor is split around it.
    factor = float(gradient_predivide_factor)
    return Options(
        op=op,
        prescale=1.0 / factor,
        postscale=factor,
        compression=settled,
        sparse_as_dense=bool(sparse_as_dense),
        groups=members.checked(groups),
        process_set=process_set,
        scale_local=scale_local_gradients,
        passes=check_passes(backward_passes_per_step),
        average_passes=average_aggregated_gradients,
    )


def layers_of(local_layers: Any, is_layer: Callable[[Any], bool]) -> list[Any]:
    """What a program passes as `local_layers`: none, a layer, or a list of them."""
    given = [] if local_layers is None else local_layers
    layers = list(given) if isinstance(given, (list, tuple)) else [given]
    for layer in layers:
        if not is_layer(layer):
            raise ValueError(
                "local_layers must be a keras.layers.Layer or a list of them, not "
                f"{type(layer).__name__}"
            )
    return layers


class Local:
    """The variables whose gradients stay on their rank. By identity: not all have another stable
    key."""

    def __init__(self, layers: Any = ()) -> None:
        self._layers = layers  # whose variables may be made later
        self.variables: list[Any] = []  # which keeps the identities valid

    def ids(self) -> set[int]:
        found = {id(v) for layer in self._layers for v in layer.trainable_variables}
        return found | {id(v) for v in self.variables}


class HasLocal:
    """An optimizer with such variables. Its data are not attributes in the usual way: Keras would
    save them."""

    _hvd_local_layers: Sequence[Any] = ()

    @property
    def _hvd_local(self) -> Local:
        local: Local = self.__dict__.setdefault(
            "_hvd_local_variables", Local(self._hvd_local_layers)
        )
        return local

    def register_local_var(self, var: Any) -> None:
        """From now on the gradient of this variable stays on its rank."""
        self._hvd_local.variables.append(var)
