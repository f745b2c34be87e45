"""torch's collectives over hvdlite's core, for a process group or for its tensors of one device.

hvdlite alone is the whole group, because C++ then enters Python without a detour. From torch 2.14
on it may be the backend of one device in a group of several, as in cpu:hvdlite,cuda:nccl. C++ calls
the methods that torch's PyProcessGroup and PyBackend forward, and torch's Python calls the others.
Each method has torch's name and arguments; where torch 2.13 has renamed one, it has both names.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from functools import partial
from typing import Any

import torch
from torch import distributed as dist

from hvdlite.base.operations import (
    ALLGATHER,
    ALLREDUCE,
    ALLTOALL,
    BARRIER,
    BROADCAST,
    REDUCE,
    REDUCESCATTER,
)
from hvdlite.base.ops import Sum
from hvdlite.core import engine
from hvdlite.core.collectives import Collectives
from hvdlite.core.operations import Call
from hvdlite.core.process_sets import ProcessSet, set_id_of
from hvdlite.torch import sparse
from hvdlite.torch.distributed import older
from hvdlite.torch.distributed.face import Face
from hvdlite.torch.distributed.messages import GlooForMessages
from hvdlite.torch.distributed.older import for_the_caller
from hvdlite.torch.distributed.tensors import (
    Deliver,
    Folding,
    blocks,
    check_alike,
    deliver_folded,
    flat,
    joined,
    moved,
    plain,
    reduction_of,
    replacing,
    room_in,
    sizes,
    spreading,
)
from hvdlite.torch.distributed.work import DONE, ByBackward, ByThread, Work, called_by_autograd
from hvdlite.torch.framework import FRAMEWORK

_Group: Any = dist.ProcessGroup  # type: ignore[attr-defined]
_Backend: Any = older.PYTHONS_BACKEND
_OPS = Collectives(FRAMEWORK, scatters_any=True)

# A gather of so few bytes from each rank goes to all ranks: many allgathers travel together, an
# alltoall travels alone.
_FOR_ALL = 4096

Tensors = Sequence[torch.Tensor]


class Operations(Face):
    """The ranks of a process set. `ranks` are the job's numbers of them, and `label` is the group's
    name. All of them call its operations in one order, so these have no names."""

    torchs: Any  # torch's class, from which those below derive, too

    def __init__(
        self, store: Any, rank: int, timeout: timedelta, label: str, process_set: ProcessSet,
        ranks: Sequence[int],
    ) -> None:  # fmt: skip
        self.torchs.__init__(self, rank, len(ranks))
        Face.__init__(self, store, rank, len(ranks), timeout)
        self._set = process_set
        self._ranks = list(ranks)
        self._by_thread = ByThread(f"hvdlite-{label}")
        self.by_backward = ByBackward(self._by_thread)
        self._messages = GlooForMessages(store, rank, len(ranks), timeout)
        self._leaves: Any = None  # what shutdown() does besides

    # ---- allreduce, reduce, broadcast, barrier

    def allreduce(self, tensors: Tensors | torch.Tensor, opts: Any = None) -> Any:
        given = [tensors] if isinstance(tensors, torch.Tensor) else list(tensors)
        op = reduction_of(opts, given)
        if not isinstance(op, int):
            return self._fold(opts, given, op)
        is_sparse = len(given) == 1 and given[0].layout is torch.sparse_coo
        if blocks(opts) and len(given) == 1 and not is_sparse:
            _OPS.run_one(plain(given[0]), ALLREDUCE, None, self._set, op, in_place=True)
            return DONE
        by_backward = called_by_autograd()
        completer = self.by_backward if by_backward else self._by_thread
        if is_sparse:
            pending = sparse.pending(_OPS, given[0], None, op, self._set, by_backward)
            deliver: Deliver | None = replacing(given[0])
        else:
            deliver = None
            call = self._call(
                ALLREDUCE, op=op, in_place=True, grouped=len(given) > 1, patient=by_backward
            )
            pending = _OPS.start(call, [plain(tensor) for tensor in given])
        work = Work(pending, given, completer, deliver, _device_of(given))
        return for_the_caller(work, by_backward)

    allreduce_coalesced = allreduce

    def reduce(self, tensors: Tensors, opts: Any) -> Any:
        (tensor,) = tensors
        source = plain(tensor)
        op = reduction_of(opts, tensors)
        if not isinstance(op, int):
            return self._fold(opts, tensors, op, opts.rootRank)

        def deliver(results: tuple[Any, ...]) -> None:
            if opts.rootRank == self.rank():
                source.copy_(results[0])

        call = self._call(REDUCE, op=op, root=self._ranks[opts.rootRank])
        return self._perform(opts, call, [source], list(tensors), deliver)

    def _fold(self, opts: Any, tensors: Tensors, fold: Folding, root: int | None = None) -> Any:
        """Each rank, or the root, computes a reduction that the core does not have."""
        is_mine = root in (None, self.rank())
        deliver = partial(deliver_folded, fold, self.size(), tensors) if is_mine else None
        call = self._call(ALLGATHER, grouped=len(tensors) > 1)
        return self._perform(opts, call, [flat(each) for each in tensors], list(tensors), deliver)

    def broadcast(self, tensors: Tensors | torch.Tensor, opts: Any = None) -> Any:
        (tensor,) = [tensors] if isinstance(tensors, torch.Tensor) else tensors
        place = opts if isinstance(opts, int) else getattr(opts, "rootRank", 0)
        call = self._call(BROADCAST, root=self._ranks[place], in_place=True)
        return self._perform(opts, call, [moved(tensor)], [tensor])

    def barrier(self, opts: Any = None) -> Any:
        how: tuple[Any, ...] = (BARRIER.kind, Sum, set_id_of(self._set), None, None, None)
        how += (0, 1.0, 1.0, [])
        if blocks(opts):
            engine.run(*how)
            return DONE
        how += (False,)
        native = engine.submit(*how)
        pending = engine.Pending([native], lambda results: None)
        return for_the_caller(Work(pending, [], self._by_thread))

    # ---- gathering

    def allgather(self, outputs: Sequence[Tensors], inputs: Tensors, opts: Any = None) -> Any:
        (output,), (source,) = outputs, inputs
        return self._gather(opts, output, source)

    def all_gather_single(
        self, output: torch.Tensor, source: torch.Tensor, opts: Any = None
    ) -> Any:
        return self._gather(opts, [output], source)

    _allgather_base = all_gather_single

    def all_gather_single_coalesced(
        self, outputs: Tensors, inputs: Tensors, opts: Any = None
    ) -> Any:
        return self._gather_all(opts, [[output] for output in outputs], inputs, outputs)

    allgather_into_tensor_coalesced = all_gather_single_coalesced

    def allgather_coalesced(
        self, outputs: Sequence[Tensors], inputs: Tensors, opts: Any = None
    ) -> Any:
        """`outputs` has a list for each rank: of that rank's tensors, in the order of `inputs`."""
        if len(outputs) != self.size() or any(len(each) != len(inputs) for each in outputs):
            raise ValueError(
                f"all_gather_coalesced takes a list for each of the {self.size()} ranks, each of "
                f"{len(inputs)} tensors, as the input has; got lists of "
                f"{[len(each) for each in outputs]}"
            )
        return self._gather_all(opts, list(zip(*outputs, strict=True)), inputs, outputs)

    def _gather_all(
        self, opts: Any, outputs: Sequence[Tensors], inputs: Tensors, value: Any
    ) -> Any:
        """`outputs` has the tensors for each input."""
        for each, source in zip(outputs, inputs, strict=True):
            check_alike(each, source)
        call, rows = self._call(ALLGATHER, grouped=True), [flat(each) for each in inputs]
        return self._perform(opts, call, rows, value, spreading(*outputs))

    def gather(self, outputs: Sequence[Tensors], inputs: Tensors, opts: Any) -> Any:
        (source,) = inputs
        wanted = outputs[0] if opts.rootRank == self.rank() else []
        check_alike(wanted, source)
        row = flat(source)
        if row.nbytes <= _FOR_ALL:
            return self._gather(opts, wanted, source)
        splits = [row.numel() if i == opts.rootRank else 0 for i in range(self.size())]
        return self._exchange(opts, row, splits, wanted)

    def _gather(self, opts: Any, outputs: Tensors, source: torch.Tensor) -> Any:
        """Without outputs, other ranks alone have the result."""
        check_alike(outputs, source)
        row = flat(source)
        room = room_in(outputs, row, row.numel() * self.size())
        deliver = spreading(outputs) if outputs and room is None else None
        return self._perform(opts, self._call(ALLGATHER, output=room), [row], outputs, deliver)

    # ---- scattering and exchanging

    def reduce_scatter(self, outputs: Tensors, inputs: Sequence[Tensors], opts: Any = None) -> Any:
        (output,), (parts,) = outputs, inputs
        check_alike([output], parts[0])
        row = torch.cat([plain(part).reshape(-1) for part in parts])
        lengths = [part.numel() for part in parts]
        if len(set(lengths)) == 1:
            return self.reduce_scatter_single(output, row, opts)
        # The core's parts are equally long.
        mine = torch.split(row, lengths)[self.rank()]

        def deliver(results: tuple[Any, ...]) -> None:
            plain(output).copy_(mine.view(output.shape))

        call = self._call(ALLREDUCE, op=reduction_of(opts), in_place=True)
        return self._perform(opts, call, [row], [output], deliver)

    def reduce_scatter_single(
        self, output: torch.Tensor, source: torch.Tensor, opts: Any = None
    ) -> Any:
        return self.reduce_scatter_single_coalesced([output], [source], opts)

    _reduce_scatter_base = reduce_scatter_single

    def reduce_scatter_single_coalesced(
        self, outputs: Tensors, inputs: Tensors, opts: Any = None
    ) -> Any:
        for output, source in zip(outputs, inputs, strict=True):
            check_alike([output], source)
            if output.numel() * self.size() != source.numel():
                raise ValueError(
                    f"reduce_scatter: the input has {source.numel()} elements and the output "
                    f"{output.numel()}, but the group has {self.size()} ranks"
                )
        rows = [plain(source).reshape(-1) for source in inputs]
        room = room_in(outputs, rows[0], outputs[0].numel())
        call = self._call(
            REDUCESCATTER, op=reduction_of(opts), grouped=len(inputs) > 1, output=room
        )
        deliver = spreading(*([output] for output in outputs)) if room is None else None
        return self._perform(opts, call, rows, list(outputs), deliver)

    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced

    def scatter(self, outputs: Tensors, inputs: Sequence[Tensors], opts: Any) -> Any:
        (output,) = outputs
        row, splits = flat(output).new_empty(0), [0] * self.size()
        if opts.rootRank == self.rank():
            check_alike(inputs[0], output)
            row, splits = joined(inputs[0]), sizes(inputs[0])
        return self._exchange(opts, row, splits, outputs)

    def alltoall(self, outputs: Tensors, inputs: Tensors, opts: Any = None) -> Any:
        check_alike([*outputs, *inputs], inputs[0])
        return self._exchange(opts, joined(inputs), sizes(inputs), outputs)

    def all_to_all_single(
        self, output: torch.Tensor, source: torch.Tensor, output_splits: Sequence[int],
        input_splits: Sequence[int], opts: Any = None,
    ) -> Any:  # fmt: skip
        check_alike([output], source)
        row = flat(source)
        rows = source.shape[0] if source.dim() else 1
        splits = [row.numel() // max(rows, 1) * each for each in input_splits]
        return self._exchange(opts, row, splits or self._equal_parts(row), [output])

    alltoall_base = all_to_all_single

    def _equal_parts(self, row: torch.Tensor) -> list[int]:
        size = self.size()
        if row.numel() % size:
            raise ValueError(
                f"all_to_all: {row.numel()} elements cannot be divided among {size} ranks"
            )
        return [row.numel() // size] * size

    def _exchange(self, opts: Any, row: torch.Tensor, splits: list[int], outputs: Tensors) -> Any:
        room = room_in(outputs, row, sum(sizes(outputs)))
        deliver = spreading(outputs) if room is None else None
        call = self._call(ALLTOALL, splits=splits, output=room)
        return self._perform(opts, call, [row], outputs, deliver)

    # ---- from one rank to another

    def send(self, tensors: Tensors, dst: int, tag: int = 0) -> Any:
        return self._messages.send(tensors, dst, tag)

    def recv(self, tensors: Tensors, src: int, tag: int = 0) -> Any:
        return self._messages.receive(tensors, src, tag)

    def recv_anysource(self, tensors: Tensors, tag: int = 0) -> Any:
        return self._messages.receive(tensors, None, tag)

    # ---- how an operation runs, and the end

    def _call(self, operation: Any, **how: Any) -> Call:
        return Call(operation, None, self._set, **how)

    def _perform(
        self, opts: Any, call: Call, tensors: list[torch.Tensor], value: Any,
        deliver: Deliver | None = None,
    ) -> Any:  # fmt: skip
        if blocks(opts):
            results = _OPS.run(call, tensors)
            if deliver is not None:
                deliver(results)
            return DONE
        pending = _OPS.start(call, tensors)
        device = _device_of(tensors)
        return for_the_caller(Work(pending, value, self._by_thread, deliver, device))

    def shutdown(self) -> None:
        leaves, self._leaves = self._leaves, None
        self._by_thread.close()
        self._messages.close()
        if leaves is not None:
            leaves()

    def when_it_ends(self, leaves: Any) -> None:
        """Calls this once, in shutdown()."""
        self._leaves = leaves

    def abort(self) -> None:
        """Ends the job on all ranks: a group of it does not end alone."""
        engine.abort(f"{self!r} was aborted by torch.distributed")


class ProcessGroup(Operations, _Group):
    """hvdlite alone."""

    torchs = _Group


class DeviceBackend(Operations, _Backend):
    """hvdlite for the tensors of one device."""

    torchs = _Backend


def _device_of(tensors: Tensors) -> torch.device | None:
    return next((tensor.device for tensor in tensors if tensor.is_cuda), None)
