"""The process group of a loop that goes on where it is when ranks die and come.

In a turn in which a rank is lost, and in one that this rank makes alone, every operation answers at
once with what this rank has, so the backward pass and all behind it end as usual. Between turns an
operation whose result is the same on all ranks is done again among those that are left. See
hvdlite/elastic/turns.py for turns, and docs/how-it-works/elastic.md.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import distributed as dist

from hvdlite.base.operations import EXCHANGED, GATHERED, OF_OTHER_ROWS, SHARED
from hvdlite.core import engine
from hvdlite.core.operations import Call
from hvdlite.elastic.in_place import LoopInPlace, for_good
from hvdlite.exceptions import HorovodInternalError, PeerLostError
from hvdlite.job import membership
from hvdlite.torch.distributed.group import ProcessGroup, Tensors
from hvdlite.torch.distributed.older import for_the_caller
from hvdlite.torch.distributed.reconfigurable import BoundAnew
from hvdlite.torch.distributed.tensors import Deliver, blocks, plain, sizes
from hvdlite.torch.distributed.work import DONE, Work

_dist: Any = dist

#: Of larger tensors there is no copy with which an operation could be done again.
MOST_BYTES = 1 << 20

_TOO_LARGE = (
    " Between turns hvdlite does an operation again if its tensors have {most} bytes at most and "
    "its result is the same on all ranks: call the function that does it by going_on's "
    "region(function), which is then called again."
)


_ROOT_IS_LOST = (
    "rank {root} was lost, whose tensor a broadcast between turns was about to send. Call the "
    "function that does it by going_on's region(function): it is called again, and another rank "
    "has that number."
)


class InPlace(BoundAnew):
    """Of all ranks of an elastic job. Without a loop it is like any other."""

    loop: LoopInPlace | None = None

    # ---- collectives

    def allreduce(self, tensors: Tensors | torch.Tensor, opts: Any = None) -> Any:
        if self.loop is None and not engine.warms_up():
            return super().allreduce(tensors, opts)
        given = [tensors] if isinstance(tensors, torch.Tensor) else list(tensors)
        alone = _nothing if blocks(opts) else partial(_zero, given)
        run = partial(super().allreduce, given, opts)
        return self._guarded(True, run, opts, given, given, alone)

    def barrier(self, opts: Any = None) -> Any:
        if self.loop is None and not engine.warms_up():
            return super().barrier(opts)
        return self._guarded(True, partial(super().barrier, opts), opts, [], [], _nothing)

    def _perform(
        self, opts: Any, call: Call, tensors: list[torch.Tensor], value: Any,
        deliver: Deliver | None = None,
    ) -> Any:  # fmt: skip
        if self.loop is None and not engine.warms_up():
            return super()._perform(opts, call, tensors, value, deliver)
        members = _members()

        def run() -> Any:
            present = call if members == _members() else self._present(call, members)
            return ProcessGroup._perform(self, opts, present, tensors, value, deliver)

        alone = partial(_answer, call, tensors, value, deliver, self.rank(), self.size())
        is_same = call.operation.result not in OF_OTHER_ROWS
        return self._guarded(is_same, run, opts, tensors, value, alone)

    def _guarded(
        self, is_same: bool, run: Callable[[], Any], opts: Any, tensors: Sequence[torch.Tensor],
        value: Any, alone: Callable[[], None],
    ) -> Any:  # fmt: skip
        """`alone` puts what this rank has in the place of the results. `is_same`: these are equal
        on all ranks, or only the root has one."""
        loop = self.loop
        if loop is None or loop.turn.is_burnt:
            alone()
            return _over(opts, value)
        if not loop.turn.is_open:
            return run() if loop.in_region else self._between(loop, is_same, run, tensors)
        kept = _copies(tensors) if blocks(opts) else None

        def burns(error: Exception) -> bool:
            if not isinstance(error, HorovodInternalError) or not error.retryable:
                return False
            loop.turn.lost = error
            _put_back(tensors, kept)
            alone()
            return True

        try:
            work = run()
        except HorovodInternalError as error:
            if not burns(error):
                raise
            return _over(opts, value)
        if isinstance(work, Work) and work is not DONE:
            work.forgives = burns
        return work

    def _present(self, call: Call, members: Sequence[int]) -> Call:
        """The same call among those that are left. `members`: by rank, when it was made."""
        root = call.root
        if call.operation.rooted:
            left = _members()
            is_left = members[root] in left
            if not is_left and not call.operation.reduces:
                raise for_good(PeerLostError(_ROOT_IS_LOST.format(root=root), root))
            root = left.index(members[root]) if is_left else 0
        return call._replace(process_set=self._set, root=root)

    def _between(
        self,
        loop: LoopInPlace,
        is_same: bool,
        run: Callable[[], Any],
        tensors: Sequence[torch.Tensor],
    ) -> Any:
        """Blocking or not, it has ended when this returns."""
        repeats = is_same and sum(t.nbytes for t in tensors) <= MOST_BYTES
        kept = _copies(tensors) if repeats else None
        while True:
            loop.turn.waits = True
            try:
                work = run()
                work.wait()
            except HorovodInternalError as error:
                if not error.retryable:
                    raise
                if kept is None:
                    error.args = (str(error) + _TOO_LARGE.format(most=MOST_BYTES), *error.args[1:])
                    raise
                result = loop.again(error)
                _put_back(tensors, kept if result is None else result)
                if result is None:
                    continue
                work = DONE
            finally:
                loop.turn.waits = False
            loop.done(_copies(tensors) if repeats else None)
            return work


def groups() -> list[InPlace]:
    """Those of all ranks that the program has, the default one first. All ranks have made them in
    this order."""
    return [each for each in _dist.distributed_c10d._world.pg_map if isinstance(each, InPlace)]


def _members() -> tuple[int, ...]:
    """The members' numbers by rank."""
    member = membership.member()
    assignment = member.assignment if member is not None else None
    return assignment.member_numbers() if assignment is not None else ()


# ---- what this rank has, in the place of the results


def alone_results(
    call: Call, tensors: Sequence[torch.Tensor], rank: int, size: int, wanted: int
) -> tuple[torch.Tensor, ...]:
    """As if all ranks had this one's tensors. `wanted`: elements of an alltoall's result."""
    if call.operation.result is GATHERED:
        return tuple(row.repeat(size) for row in tensors)
    if call.operation.result is SHARED:
        return tuple(row.chunk(size)[rank] for row in tensors)
    if call.operation.result is EXCHANGED:  # the parts of others may be longer than this rank's
        return (tensors[0].new_zeros(wanted),)
    return tuple(tensors)


def _answer(
    call: Call, tensors: Sequence[torch.Tensor], value: Any, deliver: Deliver | None, rank: int,
    size: int,
) -> None:  # fmt: skip
    wanted = sum(sizes(value)) if call.operation.result is EXCHANGED else 0
    results = alone_results(call, tensors, rank, size, wanted)
    if deliver is not None:
        deliver(results)
    elif call.output is not None:
        call.output.copy_(results[0].view(call.output.shape))


def _zero(tensors: Tensors) -> None:
    """Gradients of a burnt turn are dropped; until then scalers and clipping see finite numbers."""
    for tensor in tensors:
        plain(tensor).zero_()


def _nothing() -> None:
    pass


def _over(opts: Any, value: Any) -> Any:
    return DONE if blocks(opts) else for_the_caller(Work(None, value))


def _copies(tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Of larger ones the first element stands for all: what a burnt turn makes of them is not
    used."""
    return [plain(t).clone() if t.nbytes <= MOST_BYTES else plain(t)[:0] for t in tensors]


def _put_back(tensors: Sequence[torch.Tensor], kept: Sequence[torch.Tensor] | None) -> None:
    for tensor, copy in zip(tensors, kept or (), strict=False):
        if copy.shape == tensor.shape:
            plain(tensor).copy_(copy)
        else:
            plain(tensor).zero_()
