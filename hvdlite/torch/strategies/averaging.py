"""Averages the weights of an optimizer's parameters, when hvdlite.adapter.local_steps says so.

Counts, anchors and velocities are in the optimizer's parameter groups: there state_dict(),
broadcast_optimizer_state() and elastic states find them.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import torch

from hvdlite.adapter import drift, local_steps, names
from hvdlite.adapter.drift_guard import DriftGuard, Replica
from hvdlite.adapter.local_steps import Count, Plan
from hvdlite.adapter.outer import Outer
from hvdlite.adapter.outer import step as outer_step
from hvdlite.base.operations import ALLREDUCE
from hvdlite.base.ops import Sum
from hvdlite.core import engine
from hvdlite.core.operations import Call
from hvdlite.job import basics
from hvdlite.torch.ops import OPS
from hvdlite.torch.replicas import READER
from hvdlite.torch.strategies.own import declare_own

_KEY = "local_steps"  # of what is in the groups
_WIDE = {torch.float16: torch.float32, torch.bfloat16: torch.float32}


class _Part(NamedTuple):
    """A tensor that is averaged."""

    target: torch.Tensor
    sent: torch.Tensor  # becomes the sum
    anchor: torch.Tensor | None = None  # of DiLoCo: where the ranks have started
    velocity: torch.Tensor | None = None
    parameter: torch.Tensor | None = None  # whose optimizer state begins anew


class _Flight(NamedTuple):
    """An average under way."""

    fragment: int
    parts: list[_Part]
    launched: list[torch.Tensor]  # what the targets were, if they change meanwhile
    numbers: torch.Tensor  # the ranks' shares and losses, becomes the sums
    pending: Any


class Averaging:
    """Of one optimizer. `outer`: None for LocalSGD, which takes the average as it is."""

    def __init__(self, optimizer: Any, plan: Plan, outer: Outer | None, momentum: str) -> None:
        self.plan = plan
        self.outer = outer
        self.momentum = momentum  # local, average or reset
        self.averages = 0  # applied so far
        self._optimizer = optimizer
        options = optimizer._hvd.options
        self._takes_part = options.takes_part()
        self._process_set = options.process_set
        self._scope = f"{names.scope()}local."
        self._is_local = False
        self._flight: _Flight | None = None
        self._noted: tuple[float, Any] = (1.0, 0.0)  # samples and loss of the next step
        self._at = time.monotonic()  # of the last average; of this process, so not in a checkpoint
        self._replicas: list[Replica] = []
        self._era = basics.incarnation()
        self.adopt()

    # ---- around a step

    def before_step(self) -> None:
        if self._era != basics.incarnation():  # what was under way will never arrive
            self._era = basics.incarnation()
            self.drop()
        if self.outer is not None:
            self._anchored(self._groups())  # the first step starts where all ranks do

    def note(self, samples: float | None = None, loss: Any = None) -> None:
        """See LocalSteps.note."""
        before = self._noted
        samples = before[0] if samples is None else samples
        if loss is None or not self.plan.adaptive:
            loss = before[1]
        elif isinstance(loss, torch.Tensor):
            loss = loss.detach()
        self._noted = samples, loss

    def after_step(self) -> None:
        """Counts, and averages what is due."""
        now = time.monotonic()
        samples, loss = self._noted
        self._noted = 1.0, 0.0
        count = local_steps.stepped(self.plan, self._count, now, np, samples, float(loss))
        self._keep(count)
        if not (self._is_local and self._takes_part):
            self.adopt()
        elif self.plan.is_cut:
            self._go_on_with_round(int(count.since))
        elif local_steps.is_due(self.plan, count, now):
            self._average_all()

    def sync(self) -> None:
        """Averages everything now."""
        if self._is_local and self._takes_part:
            self.land()
            self._average_all()

    def land(self) -> None:
        """Applies the average that is under way."""
        if self._flight is not None:
            flight, self._flight = self._flight, None
            self._apply(flight)

    def drop(self) -> None:
        """Forgets the average that is under way."""
        self._flight = None
        self._at = time.monotonic()

    # ---- what is averaged when

    def _go_on_with_round(self, position: int) -> None:
        if self._flight and local_steps.lands(self.plan, self._flight.fragment) == position:
            self.land()
        for fragment, start in enumerate(local_steps.starts(self.plan)):
            if start == position:
                self._flight = self._launch(fragment)
                if not self.plan.overlap:
                    self.land()
        if position == self.plan.every:
            self._begin_interval(0.0)

    def _average_all(self) -> None:
        self._begin_interval(self._apply(self._launch(None)))

    def _begin_interval(self, loss: float) -> None:
        now = time.monotonic()
        self._keep(local_steps.averaged(self.plan, self._count, loss, now, np))

    # ---- an average

    def _launch(self, fragment: int | None) -> _Flight:
        """Starts the sums over all ranks. None: of all fragments."""
        count = self._count
        share = float(local_steps.share(self.plan, count, np))
        with torch.no_grad():
            parts = list(self._parts(fragment, share))
            travels = self.plan.overlap and fragment is not None
            launched = [each.target.clone() for each in parts] if travels else []
        loss = share * float(local_steps.mean_loss(count, np))
        numbers = torch.tensor([share, loss], dtype=torch.float64)
        name = f"{self._scope}{'weights' if fragment is None else f'fragment.{fragment}'}"
        call = Call(ALLREDUCE, name, self._process_set, Sum, in_place=True, grouped=True,
                    patient=True)  # fmt: skip
        pending = OPS.start(call, [*(each.sent for each in parts), numbers])
        return _Flight(0 if fragment is None else fragment, parts, launched, numbers, pending)

    def _parts(self, fragment: int | None, share: float) -> Iterator[_Part]:
        """LocalSGD sends weights, DiLoCo how far they have moved."""
        groups = self._groups()
        if self.outer is None:
            for tensor in [p.detach() for group in groups for p in _trained(group)]:
                yield _Part(tensor, self._weighed(tensor, share))
            for tensor in self._state(groups) if self.momentum == "average" else ():
                yield _Part(tensor, self._weighed(tensor, share))
            return
        anchored = self._anchored(groups)
        for parameter, anchor, velocity in (
            anchored
            if fragment is None
            else [anchored[number] for number in self._cut(anchored)[fragment]]
        ):
            moved = anchor - parameter.detach()
            resets = parameter if self.momentum == "reset" else None
            yield _Part(parameter.detach(), self._weighed(moved, share), anchor, velocity, resets)

    def _weighed(self, tensor: torch.Tensor, share: float) -> torch.Tensor:
        """Of 16 bits, a weight times many samples would be infinite."""
        if not self.plan.is_timed:
            return tensor
        return tensor.to(_WIDE.get(tensor.dtype, tensor.dtype)) * share

    def _apply(self, flight: _Flight) -> float:
        """Waits for the sums. Returns the mean loss of all ranks."""
        engine.run_now(flight.pending)
        total, loss = flight.numbers.tolist()
        with torch.no_grad():
            for number, part in enumerate(flight.parts):
                result = part.sent.div_(total)
                if part.anchor is not None:
                    result = self._outer_step(part)
                if part.parameter is not None:
                    self._optimizer.state.pop(part.parameter, None)
                if flight.launched:  # the rank has moved on meanwhile
                    part.target.add_(result - flight.launched[number])
                elif result is not part.target:
                    part.target.copy_(result)
        self.averages += 1
        self._compare()
        return float(loss / total)

    def _outer_step(self, part: _Part) -> torch.Tensor:
        """The new anchor."""
        assert self.outer is not None and part.anchor is not None
        anchor, velocity = outer_step(self.outer, part.anchor, part.sent, part.velocity, torch)
        part.anchor.copy_(anchor)
        if part.velocity is not None:
            part.velocity.copy_(velocity)
        return part.anchor

    def _compare(self) -> None:
        """Right behind an average, and at no other time, ranks have the same: the weights, or with
        DiLoCo the anchors."""
        guard: DriftGuard = self._optimizer._hvd.guard
        names = self._optimizer._parameter_names
        if self.outer is None:
            pairs = [(p, p) for group in self._groups() for p in _trained(group)]
        else:
            pairs = [(p, anchor) for p, anchor, _ in self._anchored(self._groups())]
        self._replicas[:] = [Replica(names[p], same) for p, same in pairs]
        guard.compare()

    # ---- what there is

    def _become_local(self) -> None:
        """Gradients stay on their rank from now on, and so do the weights until an average."""
        self._is_local = True
        shared = self._optimizer._hvd
        shared.stop()
        shared.guard = DriftGuard(self._scope, self._process_set, self._replicas, READER)
        self._at = time.monotonic()
        self.adopt()

    def adopt(self) -> None:
        """The next step may be the first that is local, and there may be new parameters."""
        if not self._is_local and not local_steps.is_synchronous(self.plan, self._count):
            self._become_local()
        elif self._is_local:
            declare_own(p for group in self._groups() for p in _trained(group))

    def _groups(self) -> list[dict[str, Any]]:
        groups: list[dict[str, Any]] = self._optimizer.__dict__["param_groups"]
        return groups

    @property
    def _count(self) -> Count:
        group = self._groups()[0]
        numbers = group.get(_KEY, {}).get("count")
        if not numbers:
            return local_steps.begin(self.plan, self._at)
        return Count._make([*numbers, self._at])

    def _keep(self, count: Count) -> None:
        *numbers, at = map(float, count)
        self._groups()[0].setdefault(_KEY, {})["count"] = numbers
        self._at = at

    def _anchored(
        self, groups: list[dict[str, Any]]
    ) -> list[tuple[torch.Tensor, torch.Tensor, torch.Tensor]]:
        """Parameters with their anchors and velocities. A parameter that is new starts where it
        is."""
        found = []
        for group in groups:
            kept = group.setdefault(_KEY, {}).setdefault("outer", {})
            for number, parameter in enumerate(group["params"]):
                if not _is_averaged(parameter):
                    continue
                if number not in kept:
                    now = parameter.detach()
                    kept[number] = [now.clone(), torch.zeros_like(now)]
                elif kept[number][0].device != parameter.device:  # of a checkpoint
                    kept[number] = [each.to(parameter.device) for each in kept[number]]
                found.append((parameter, *kept[number]))
        return found

    def _cut(self, anchored: list[Any]) -> list[range]:
        sizes = [parameter.numel() * parameter.element_size() for parameter, *_ in anchored]
        return drift.cuts(sizes, self.plan.fragments)

    def _state(self, groups: list[dict[str, Any]]) -> list[torch.Tensor]:
        """What the optimizer remembers of each parameter's gradients: momentum, and averages of
        squares."""
        known = self._optimizer.state
        return [
            value
            for group in groups
            for parameter in _trained(group)
            for value in known.get(parameter, {}).values()
            if isinstance(value, torch.Tensor) and value.shape == parameter.shape
            and value.is_floating_point() and value.dim() > 0
        ]  # fmt: skip


def _trained(group: dict[str, Any]) -> list[torch.Tensor]:
    return [parameter for parameter in group["params"] if _is_averaged(parameter)]


def _is_averaged(parameter: torch.Tensor) -> bool:
    return parameter.requires_grad and parameter.is_floating_point()
