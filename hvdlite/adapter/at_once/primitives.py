"""The primitives that reduction.py needs of a framework that reduces all gradients together."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from hvdlite.adapter.compression.methods import Encoded, Largest
from hvdlite.adapter.compression.rounds import ask_encoded, ask_largest
from hvdlite.adapter.step import Options
from hvdlite.base.operations import ALLREDUCE
from hvdlite.base.ops import Sum as SUM
from hvdlite.core.engine import Pending, run_all
from hvdlite.core.framework import Tensor
from hvdlite.core.operations import Call
from hvdlite.core.process_sets import ProcessSet

_BEGIN = time.monotonic()  # float32 has not enough digits for the clock of a machine

Group = dict[int, Tensor]  # what travels together, by the numbers of its variables


class Backend:
    """The primitives. The defaults suit frameworks without sparse gradients."""

    #: whether ranks may differ about which variables got a gradient; flags(), seen() and
    # zeros_like() are for these
    dynamic = False

    def allreduce(self, groups: Sequence[Group], options: Options) -> Group:
        """The results of all groups: at once, or as part of the step that is being traced."""
        raise NotImplementedError

    def compare(self, lacking: Sequence[int], options: Options) -> None:
        """Makes the step fail on all ranks if they lack different gradients. Not needed where
        `dynamic`, nor where all gradients always exist."""

    def allgather(self, group: Group, options: Options) -> Group:
        """The same for tensors of which each comes back with a first dimension more: that of the
        ranks."""
        raise NotImplementedError

    def encoded(self, group: dict[int, Encoded], options: Options) -> dict[int, Any]:
        """The answers to rounds by a codec: sum and residual of each."""
        return _by_core(group, options, "encoded", ask_encoded)

    def largest(self, group: dict[int, Largest], options: Options) -> dict[int, Any]:
        """The answers to rounds of tensors that the core is lent: sum and memory of each."""
        return _by_core(group, options, "largest", ask_largest)

    def is_sparse(self, gradient: Tensor) -> bool:
        return False

    def to_dense(self, gradient: Tensor) -> Tensor:
        return gradient

    def shared_out(self, gradient: Tensor, process_set: ProcessSet) -> Tensor:
        """Divided by the number of ranks."""
        return gradient / (process_set.size() or 1)

    def flags(self, values: Sequence[bool]) -> Tensor:
        """A tensor whose sum over all ranks tells which of the values are true somewhere."""
        raise NotImplementedError

    def seen(self, flags: Tensor) -> Sequence[bool]:
        raise NotImplementedError

    def zeros_like(self, variable: Any) -> Tensor:
        raise NotImplementedError

    # ---- what depends on a number of the step, at once, or as the step that is traced decides

    def either(
        self, condition: Any, change: Callable[[list[Tensor]], list[Tensor]], given: list[Tensor]
    ) -> list[Tensor]:
        """change(given) if the condition is true, else `given`."""
        return change(given) if bool(condition) else given

    def seconds(self) -> Any:
        """The clock of this process, when the step runs."""
        return time.monotonic() - _BEGIN


def _by_core(
    group: Mapping[int, Any], options: Options, word: str, ask: Callable[..., Pending]
) -> dict[int, Any]:
    """The core's answers, all rounds in flight at once."""
    method = options.compression.method
    assert method is not None
    call = Call(ALLREDUCE, None, options.process_set, SUM, patient=True)
    pending = [
        ask(method.algebra, call._replace(name=f"{options.scope}{word}.{number}"), each)
        for number, each in group.items()
    ]
    # All factors are 1 here.
    answers = zip(group, run_all(pending), strict=True)
    return {number: (total.array, state) for number, (total, state) in answers}
