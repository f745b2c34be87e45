"""Every collective over a framework's tensors. Each is started, and returns a Pending; or with `now` run, and returns the
result.

Tensors that the core cannot be lent (strided, on a device other than a CUDA GPU) travel as copies in host memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hvdlite import collectives as on_arrays
from hvdlite.adapter import engine
from hvdlite.adapter.engine import Kind, Pending
from hvdlite.adapter.framework import Framework, Tensor
from hvdlite.exceptions import HorovodInternalError
from hvdlite.ops import Average, Sum
from hvdlite.process_sets import ProcessSet


class Collectives:
    """The operations; stateless."""

    def __init__(self, framework: Framework) -> None:
        self.framework = framework

    def _lend_all(self, tensors: Sequence[Tensor]) -> list[Any]:
        if not isinstance(tensors, (list, tuple)):
            raise TypeError(f"expected a list of tensors, got {type(tensors).__name__}")
        for tensor in tensors:
            self.framework.check(tensor)
        return [self.framework.lend(tensor) for tensor in tensors]

    # ---- one tensor: started, or run at once

    def _go(
        self, now: bool, kind: int, host: Any, out: Any, finish: Callable[[list[Any]], Any], *how: Any, **more: Any
    ) -> Any:
        if now:
            return finish([engine.run(kind, host, out, *how, **more)])
        return Pending([engine.submit(kind, host, out, *how, **more)], finish)

    def _same_shape(self, kind: int, tensor: Tensor, in_place: bool, now: bool, *how: Any, **more: Any) -> Any:
        framework = self.framework
        framework.check(tensor)
        host = framework.lend(tensor)
        out = host if in_place else framework.empty_like(host)
        home = framework.write_back if in_place else framework.deliver
        return self._go(now, kind, host, out, lambda results: home(out, tensor), *how, **more)

    def allreduce(
        self,
        tensor: Tensor,
        name: str | None,
        op: int,
        prescale: float,
        postscale: float,
        process_set: ProcessSet,
        *,
        in_place: bool = False,
        now: bool = False,
    ) -> Any:
        return self._same_shape(Kind.ALLREDUCE, tensor, in_place, now, name, process_set, op, 0, prescale, postscale)

    def broadcast(
        self,
        tensor: Tensor,
        root: int,
        name: str | None,
        process_set: ProcessSet,
        *,
        in_place: bool = False,
        now: bool = False,
    ) -> Any:
        return self._same_shape(Kind.BROADCAST, tensor, in_place, now, name, process_set, Sum, root)

    def allgather(self, tensor: Tensor, name: str | None, process_set: ProcessSet, *, now: bool = False) -> Any:
        framework = self.framework
        framework.check(tensor)
        host = framework.lend(tensor)

        def finish(results: list[Any]) -> Tensor:
            return framework.adopt(results[0][0], tensor)

        return self._go(now, Kind.ALLGATHER, host, None, finish, name, process_set)

    def alltoall(
        self,
        tensor: Tensor,
        splits: list[int] | None,
        splits_like: Tensor | None,
        name: str | None,
        process_set: ProcessSet,
        *,
        now: bool = False,
    ) -> Any:
        """Its result is (output, received splits)."""
        framework = self.framework
        framework.check(tensor)
        if splits is not None and not splits:
            raise ValueError("splits must have one entry for each member of the process set")
        host = framework.lend(tensor)

        def finish(results: list[Any]) -> tuple[Tensor, Tensor]:
            array, received, _ = results[0]
            return framework.adopt(array, tensor), framework.integers(received, splits_like)

        return self._go(now, Kind.ALLTOALL, host, None, finish, name, process_set, splits=splits or [])

    def reducescatter(
        self,
        tensor: Tensor,
        name: str | None,
        op: int,
        prescale: float,
        postscale: float,
        process_set: ProcessSet,
        *,
        now: bool = False,
    ) -> Any:
        framework = self.framework
        framework.check(tensor)
        host = framework.lend(tensor)
        check_scatter(op)
        out = self._own_part(host, process_set)

        def finish(results: list[Any]) -> Tensor:
            return framework.deliver(out, tensor)

        return self._go(now, Kind.REDUCESCATTER, host, out, finish, name, process_set, op, 0, prescale, postscale)

    def _own_part(self, host: Any, process_set: ProcessSet) -> Any:
        """Memory for this rank's rows; None where the core will refuse anyway, with its own words."""
        shape = self.framework.shape(host)
        members = engine.members_of(process_set)
        if not shape or not members or engine.rank() not in members:
            return None
        each, odd = divmod(shape[0], len(members))
        return self.framework.empty_rows(host, each + (members.index(engine.rank()) < odd))

    # ---- groups

    def grouped_allreduce(
        self,
        tensors: Sequence[Tensor],
        name: str | None,
        op: int,
        prescale: float,
        postscale: float,
        process_set: ProcessSet,
        *,
        in_place: bool = False,
        now: bool = False,
    ) -> Any:
        framework = self.framework
        hosts = self._lend_all(tensors)
        outs = hosts if in_place else [framework.empty_like(host) for host in hosts]
        natives = engine.submit_group(
            Kind.ALLREDUCE, hosts, outs, name, process_set, op=op, prescale=prescale, postscale=postscale
        )
        home = framework.write_back if in_place else framework.deliver
        return _settle(now, Pending(natives, lambda results: tuple(map(home, outs, tensors))))

    def grouped_allgather(
        self, tensors: Sequence[Tensor], name: str | None, process_set: ProcessSet, *, now: bool = False
    ) -> Any:
        framework = self.framework
        hosts = self._lend_all(tensors)
        natives = engine.submit_group(Kind.ALLGATHER, hosts, (), name, process_set)

        def finish(results: list[Any]) -> tuple[Tensor, ...]:
            return tuple(framework.adopt(r[0], t) for r, t in zip(results, tensors, strict=True))

        return _settle(now, Pending(natives, finish))

    def grouped_reducescatter(
        self,
        tensors: Sequence[Tensor],
        name: str | None,
        op: int,
        prescale: float,
        postscale: float,
        process_set: ProcessSet,
        *,
        now: bool = False,
    ) -> Any:
        framework = self.framework
        hosts = self._lend_all(tensors)
        check_scatter(op)
        outs = [self._own_part(host, process_set) for host in hosts]
        natives = engine.submit_group(
            Kind.REDUCESCATTER, hosts, outs, name, process_set, op=op, prescale=prescale, postscale=postscale
        )
        return _settle(now, Pending(natives, lambda results: tuple(map(framework.deliver, outs, tensors))))

    # ---- what gradient rules ask: a framework that builds graphs answers with nodes of them

    def length(self, tensor: Tensor) -> Any:
        """The rows that this rank has of a tensor."""
        return self.framework.shape(tensor)[0]

    def as_splits(self, received: Tensor) -> Any:
        """The received splits of one alltoall as the splits of another."""
        return [int(n) for n in received]

    def starts(self, lengths: Sequence[Any], name: str | None, process_set: ProcessSet) -> Sequence[Any]:
        """At which row of each gathered tensor this rank's rows begin; `lengths`: how many it has of each."""
        everyones = on_arrays.allgather(np.array([lengths], np.int64), name, process_set)
        mine = engine.members_of(process_set).index(engine.rank())
        return [int(start) for start in everyones[:mine].sum(axis=0)]


def _settle(now: bool, pending: Pending) -> Any:
    return engine.run_now(pending) if now else pending


def check_scatter(op: int) -> None:
    # Horovod's class for it, though the program is at fault.
    if op not in (Average, Sum):
        error = HorovodInternalError(f"reducescatter: op={op!r} is not possible; use hvd.Average or hvd.Sum")
        error.retryable = False
        raise error
