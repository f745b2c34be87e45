"""Adasum: each rank makes a step of its own, and the steps are combined."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch

from hvdlite.adapter.agreement.drift_guard import DriftGuard, Replica
from hvdlite.base.operations import ALLREDUCE
from hvdlite.base.ops import Adasum
from hvdlite.core.operations import Call
from hvdlite.core.process_sets import global_process_set
from hvdlite.torch.distributed_optimizer import Distributed
from hvdlite.torch.ops import OPS
from hvdlite.torch.replicas import READER
from hvdlite.torch.scaling import agreed


class DistributedAdasum(Distributed):
    """See DistributedOptimizer(op=hvd.Adasum)."""

    _scope: str

    def step(self, closure: Callable[[], Any] | None = None, *args: Any, **kwargs: Any) -> Any:
        """The optimizer's step on this rank's gradients; the change of every parameter is then
        combined with the others'."""
        self._compare()
        before = [p.detach().clone() for p in self._moving()]
        own = super(Distributed, self).step  # type: ignore[misc]
        loss = own(*([] if closure is None else [closure]), *args, **kwargs)
        compression = self._hvd.compression
        with torch.no_grad():
            names = [self._scope + self._parameter_names[p] for p in self._moving()]
            calls = [
                Call(ALLREDUCE, name, op=Adasum, in_place=True, patient=True) for name in names
            ]
            deltas = map(torch.sub, self._moving(), before)
            runners = [
                compression.start(OPS, call, delta)
                for call, delta in zip(calls, deltas, strict=True)
            ]
            for parameter, start, runner in zip(self._moving(), before, runners, strict=True):
                parameter.copy_(start + runner.result())
        return loss

    step.hooked = True  # type: ignore[attr-defined]

    def _groups_for(self, scaler: Any) -> list[dict[str, Any]]:
        """Gradients are this rank's own."""
        groups: list[dict[str, Any]] = self.__dict__["param_groups"]
        return agreed(groups, f"{self._scope}overflow", global_process_set)

    def _begin(self, scope: str) -> None:
        """When the optimizer has its parameters."""
        self._scope = scope
        self._replicas: list[Replica] = []
        self._hvd.guard = DriftGuard(scope, global_process_set, self._replicas, READER)

    def _compare(self) -> None:
        """With the other ranks' parameters."""
        self._replicas[:] = [Replica(self._parameter_names[p], p) for p in self._moving()]
        if self._hvd.guard is not None:
            self._hvd.guard.compare()

    def _moving(self) -> list[torch.Tensor]:
        return [p for group in self.param_groups for p in group["params"] if p.requires_grad]

    def synchronize(self) -> None:
        """Nothing: gradients are not reduced, changes of parameters are."""

    @contextlib.contextmanager
    def skip_synchronize(self) -> Iterator[None]:
        """Not possible here."""
        raise AssertionError(
            "optimizer.skip_synchronize() is not possible with op=hvd.Adasum, which reduces inside "
            "step()"
        )
        yield
