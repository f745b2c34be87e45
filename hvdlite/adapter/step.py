"""What a program asks of the reduction of a step's gradients: Horovod's arguments, checked once."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from hvdlite.adapter import elastic
from hvdlite.adapter.compression import CompressionAdapter, Compressor
from hvdlite.adapter.local.factors import Mode
from hvdlite.base.ops import Adasum, Average
from hvdlite.core.process_sets import ProcessSet, global_process_set, set_id_of
from hvdlite.exceptions import NotInitializedError
from hvdlite.job import basics

NO_COMPRESSION = CompressionAdapter(Compressor())


# ---- which gradients travel together

#: none, how many, or lists of variables
Groups = int | Sequence[Sequence[Any]] | None


@dataclass(frozen=True)
class Members:
    """What a program lists in `groups`, in its framework's words, and whether 0 groups mean
    none."""

    one: str
    listed: str
    zero: bool = True
    expected: str = ""
    is_one: Callable[[Any], bool] = lambda member: True

    def checked(self, groups: Any) -> Groups:
        """`groups`, or a ValueError with a sentence."""
        if groups is None or (
            groups == 0 and self.zero and isinstance(groups, int) and groups is not False
        ):
            return None
        if isinstance(groups, int) and not isinstance(groups, bool) and groups > 0:
            return groups
        if not isinstance(groups, Iterable) or any(
            not isinstance(group, (list, tuple)) for group in groups
        ):
            number = "non-negative" if self.zero else "positive"
            raise ValueError(
                f"groups should be a {number} integer or a list of lists of {self.listed}, not "
                f"{groups!r}"
            )
        lists = [list(group) for group in groups]
        seen: set[int] = set()
        for member in (m for group in lists for m in group):
            if not self.is_one(member):
                raise ValueError(f"groups: expected {self.expected}, got {type(member).__name__}")
            if id(member) in seen:
                raise ValueError(f"groups: a {self.one} is listed more than once")
            seen.add(id(member))
        return lists


VARIABLES = Members("variable", "variables")


def equal_parts(total: int, count: int) -> list[list[int]]:
    """0 to total - 1 in so many parts of nearly equal length; the first ones get the odd ones."""
    each, odd = divmod(total, count)
    ends = [each * (i + 1) + min(i + 1, odd) for i in range(count)]
    return [list(range(start, end)) for start, end in zip([0, *ends], ends, strict=False)]


def positions(groups: Any, variables: Sequence[Any]) -> list[list[int]]:
    """`groups`: None, how many, or lists of variables. A variable in no list travels alone."""
    if not groups:
        return []
    if isinstance(groups, int):
        return equal_parts(len(variables), groups)
    number = {id(variable): i for i, variable in enumerate(variables)}
    return [[number[id(v)] for v in group if id(v) in number] for group in groups]


# ---- the arguments


@dataclass(frozen=True)
class Options:
    """How the gradients of a step are reduced."""

    op: int
    prescale: float
    postscale: float
    compression: CompressionAdapter = NO_COMPRESSION
    sparse_as_dense: bool = False
    groups: Groups = None
    process_set: ProcessSet = global_process_set
    scale_local: bool = True  # gradients that stay on their rank are divided by the number of ranks
    passes: int = 1  # so many backward passes add up before gradients travel
    average_passes: bool = False
    sufficient_factors: Mode = None
    scope: str = ""  # before the names of what travels: each optimizer of a program has its own
    # the names are the same at once and in a compiled program, where others may run at the same
    # time: one such reduction is in flight at most
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

    def described(self) -> str:
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
        """Whether gradients are reduced: there are other ranks, an elastic job may get them
        later, or the compression carries momentum, which one rank needs as well."""
        if not self.takes_part():
            return False
        several = (self.process_set.size() or 1) > 1 or elastic.enabled()
        return several or self.compression.carries_momentum


def check_passes(passes: int) -> int:
    if passes <= 0:
        raise ValueError("backward_passes_per_step must be 1 or more")
    return passes


def options_of(
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
    adapted = CompressionAdapter(compression)
    if adapted.method is not None:
        if groups is not None:
            raise ValueError(
                f"groups={groups!r} is not possible with {adapted}: each tensor travels by itself"
            )
        if op == Adasum:
            raise ValueError(f"op=hvd.Adasum is not possible with {adapted}: it adds gradients up")
    # The core divides by the number of ranks for Average; the factor is split around it.
    factor = float(gradient_predivide_factor)
    return Options(
        op=op,
        prescale=1.0 / factor,
        postscale=factor,
        compression=adapted,
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
