"""The collectives over a framework's tensors.

Tensors that the core cannot be lent (strided, on a device other than a CUDA GPU) travel as copies
in host memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from hvdlite.base.operations import (
    ALLGATHER,
    ALLREDUCE,
    BROADCAST,
    EXCHANGED,
    OF_OTHER_ROWS,
    SAME,
    SHARED,
    Operation,
)
from hvdlite.base.ops import Sum
from hvdlite.core import engine
from hvdlite.core.engine import Pending
from hvdlite.core.framework import Framework, Tensor
from hvdlite.core.operations import Call, check_scatter, keeps_input
from hvdlite.core.process_sets import ProcessSet, global_process_set, set_id_of

_NO_SPLITS: list[int] = []


class Collectives:
    """Runs and starts operations; stateless.

    `scatters_any`: whether a shared result may come of other reductions than Average and Sum,
    whose gradients are known.
    """

    def __init__(self, framework: Framework, scatters_any: bool = False) -> None:
        self.framework = framework
        self._scatters_any = scatters_any

    def run_one(
        self, tensor: Tensor, operation: Operation, name: str | None, process_set: ProcessSet,
        op: int = Sum, prescale: float = 1.0, postscale: float = 1.0, root: int = 0,
        splits: Any = None, splits_like: Any = None, in_place: bool = False, output: Any = None,
    ) -> Any:  # fmt: skip
        """Runs an operation on one tensor. To pass a Call's fields as arguments saves time."""
        framework = self.framework
        set_id = 0 if process_set is global_process_set else set_id_of(process_set)
        if (
            in_place
            and operation is ALLREDUCE
            and isinstance(tensor, framework.mutable)
            and engine.run_in_place(op, set_id, name, tensor, prescale, postscale)
        ):
            return framework.write_back(tensor, tensor)
        host = framework.lend(tensor, in_place)
        out = host
        if output is not None:
            splits = self._checked(operation, op, splits)
            out = self._writable(output)
        elif operation.result is not SAME:
            splits = self._checked(operation, op, splits)
            out = self._output(operation, host, root)
        elif not in_place:
            out = framework.empty_like(host)
        answer = engine.run(
            operation.kind,
            op,
            set_id,
            name,
            host,
            out,
            root,
            prescale,
            postscale,
            splits or _NO_SPLITS,
        )
        if output is not None:
            return self._written(operation, answer, output, splits_like)
        if out is None:
            return self._received(operation, answer, tensor, splits_like, root)
        return framework.write_back(out, tensor) if in_place else framework.deliver(out, tensor)

    def run(self, call: Call, tensors: Sequence[Tensor]) -> tuple[Any, ...]:
        """The results; of an alltoall the output and the received splits."""
        if call.grouped:
            results: tuple[Any, ...] = engine.run_now(self.start(call, tensors))
            return results
        # All fields of a Call but `grouped`, and `patient`, which is about operations in flight.
        result = self.run_one(
            tensors[0],
            call.operation,
            call.name,
            call.process_set,
            op=call.op,
            prescale=call.prescale,
            postscale=call.postscale,
            root=call.root,
            splits=call.splits,
            splits_like=call.splits_like,
            in_place=call.in_place,
            output=call.output,
        )
        return result if call.operation.result is EXCHANGED else (result,)

    def start(self, call: Call, tensors: Sequence[Tensor]) -> Pending:
        """Starts an operation. The Pending's result is that of the one tensor, or a group's
        tuple."""
        if not isinstance(tensors, (list, tuple)):
            raise TypeError(f"expected a list of tensors, got {type(tensors).__name__}")
        framework, operation = self.framework, call.operation
        hosts = [framework.lend(tensor, call.in_place) for tensor in tensors]
        if call.in_place and len(hosts) > 1:
            for i in sharing([framework.extent(host) for host in hosts]):
                hosts[i] = framework.copied(hosts[i])  # _finish() writes it back
        outs = hosts if call.in_place else self._outputs(call, hosts)
        splits = self._checked(operation, call.op, call.splits)
        how = (operation.kind, call.op, set_id_of(call.process_set), call.name)
        factors = (call.prescale, call.postscale)
        if call.grouped:
            natives = engine.submit_group(*how, hosts, outs, *factors, call.patient)
        else:
            natives = [
                engine.submit(
                    *how, hosts[0], outs[0], call.root, *factors, splits or _NO_SPLITS, call.patient
                )
            ]
        return Pending(natives, partial(self._finish, call, tensors, outs))

    def broadcast_all(
        self, tensors: Sequence[Tensor], names: Sequence[str | None], root: int,
        process_set: ProcessSet = global_process_set, in_place: bool = False,
    ) -> list[Any]:  # fmt: skip
        """Returns the tensors of the root. All broadcasts are in flight at once."""
        calls = [Call(BROADCAST, name, process_set, root=root, in_place=in_place) for name in names]
        return engine.run_all(
            [self.start(call, [tensor]) for call, tensor in zip(calls, tensors, strict=True)]
        )

    def _finish(
        self, call: Call, tensors: Sequence[Tensor], outs: list[Any], answers: list[Any]
    ) -> Any:
        if not call.grouped:
            return self._result(call, tensors[0], outs[0], answers[0])
        if len(answers) < len(outs):  # of a list, whose results are in `outs`
            answers = answers * len(outs)
        each = zip(tensors, outs, answers, strict=True)
        return tuple(self._result(call, tensor, out, answer) for tensor, out, answer in each)

    def _result(self, call: Call, tensor: Tensor, out: Any, answer: Any) -> Any:
        if call.output is not None:
            return self._written(call.operation, answer, out, call.splits_like)
        if out is None:
            return self._received(call.operation, answer, tensor, call.splits_like, call.root)
        home = self.framework.write_back if call.in_place else self.framework.deliver
        return home(out, tensor)

    def _outputs(self, call: Call, hosts: list[Any]) -> list[Any]:
        if call.output is None:
            return [self._output(call.operation, host, call.root) for host in hosts]
        return [
            self._writable(output) for output in (call.output if call.grouped else [call.output])
        ]

    def _output(self, operation: Operation, host: Any, root: int) -> Any:
        """Memory for the result; None: the core allocates it."""
        if operation.result is SAME or not (
            operation.result in OF_OTHER_ROWS or keeps_input(operation, root)
        ):
            return self.framework.empty_like(host)
        return None

    def _writable(self, output: Tensor) -> Any:
        """The caller's memory for a result. The core refuses what it cannot write into."""
        if not isinstance(output, self.framework.mutable):
            raise TypeError(f"output: a result cannot be written into a {type(output).__name__}")
        return output

    def _written(self, operation: Operation, answer: Any, output: Tensor, splits_like: Any) -> Any:
        """A result in the caller's memory."""
        result = self.framework.write_back(output, output)
        if operation.result is not EXCHANGED:
            return result
        return result, self.framework.integers(answer[1], splits_like)

    def _received(
        self, operation: Operation, answer: Any, tensor: Tensor, splits_like: Any, root: int
    ) -> Any:
        """A result whose memory is the core's."""
        if keeps_input(operation, root):
            return tensor
        array, received, _ = answer
        result = self.framework.adopt(array, tensor)
        if operation.result is not EXCHANGED:
            return result
        return result, self.framework.integers(received, splits_like)

    def _checked(self, operation: Operation, op: int, splits: Any) -> Any:
        """The splits, or an error for what the core would refuse with other words or another
        class."""
        if operation.result is SHARED and not self._scatters_any:
            check_scatter(operation, op)
        if splits is not None and not splits:
            raise ValueError("splits must have one entry for each member of the process set")
        return splits

    # ---- what gradient rules ask: a framework that builds graphs answers with nodes of them

    def length(self, tensor: Tensor) -> Any:
        """The rows that this rank has of a tensor."""
        shape = self.framework.shape(tensor)
        return shape[0] if len(shape) else 0

    def as_splits(self, received: Tensor) -> Any:
        """The received splits of one alltoall as the splits of another."""
        return [int(n) for n in received]

    def starts(
        self, lengths: Sequence[Any], name: str | None, process_set: ProcessSet
    ) -> Sequence[Any]:
        """At which row of each gathered tensor this rank's rows begin.

        `lengths`: how many rows this rank has of each.
        """
        how = (ALLGATHER.kind, Sum, set_id_of(process_set), name)
        mine = np.array([lengths], np.int64)
        everyones = engine.run(*how, mine, None, 0, 1.0, 1.0, _NO_SPLITS)[0]
        position = engine.members_of(process_set).index(engine.rank())
        return [int(start) for start in everyones[:position].sum(axis=0)]


def sharing(extents: Sequence[tuple[int, int]]) -> set[int]:
    """Which of a group's tensors overlap with one that comes before them. An operation in place
    would read there what it has written. Of several that hang together, all but the first.

    `extents`: the addresses of the first byte and behind the last one.
    """
    found: set[int] = set()
    reached, first = 0, -1
    for i in sorted(range(len(extents)), key=extents.__getitem__):
        start, end = extents[i]
        if start == end:
            continue
        if start < reached:
            found.add(max(first, i))
            first = min(first, i)
        else:
            first = i
        reached = max(reached, end)
    return found
