"""Averages the weights of an optimizer's parameters, when hvdlite.adapter.local.schedule says so.

Before an average of the whole model the ranks tell one another which parameters they have moved,
and whether they are in sync(): so ranks may freeze a layer between two averages, and reach sync()
in different steps. Fragments have no such message: there all ranks do the same in the same step.

Counts, anchors, velocities and what has moved since its last average are in the optimizer's
parameter groups: there state_dict(), broadcast_optimizer_state() and elastic states find them.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch

from hvdlite.adapter import names
from hvdlite.adapter.agreement import drift
from hvdlite.adapter.agreement.drift_guard import DriftGuard, Replica
from hvdlite.adapter.local import schedule
from hvdlite.adapter.local.outer import Outer
from hvdlite.adapter.local.outer import step as outer_step
from hvdlite.adapter.local.schedule import Count, Plan
from hvdlite.base.operations import ALLREDUCE
from hvdlite.base.ops import Max, Sum
from hvdlite.core import engine
from hvdlite.core.arrays.objects import allgather_object
from hvdlite.core.arrays.ops import OPS as ARRAYS
from hvdlite.core.operations import Call
from hvdlite.exceptions import MismatchError
from hvdlite.job import basics
from hvdlite.torch import scaling
from hvdlite.torch.ops import OPS
from hvdlite.torch.replicas import READER, declare_own

_KEY = "local_steps"  # of what is in the groups
_WIDE = {torch.float16: torch.float32, torch.bfloat16: torch.float32}


class _Member(NamedTuple):
    """A parameter that may be averaged."""

    parameter: torch.Tensor
    moves: bool  # or has moved since its last average, before it was frozen
    number: int  # in its group
    kept: dict[str, Any]  # what is known of the group

    @property
    def outer(self) -> list[torch.Tensor] | None:
        """The anchor and the velocity of DiLoCo."""
        found: list[torch.Tensor] | None = self.kept.get("outer", {}).get(self.number)
        return found


class _Part(NamedTuple):
    """A tensor that is averaged."""

    target: torch.Tensor
    sent: torch.Tensor  # becomes the sum
    anchor: torch.Tensor | None = None  # of DiLoCo: where the ranks have started
    velocity: torch.Tensor | None = None
    parameter: torch.Tensor | None = None  # whose optimizer state begins anew


class _PendingAverage(NamedTuple):
    """An average under way. `members`: what it averages, `compared`: what ranks have alike behind
    it."""

    fragment: int
    members: list[_Member]
    compared: list[_Member]
    parts: list[_Part]
    launched: list[torch.Tensor]  # what the targets were, if they change meanwhile
    numbers: torch.Tensor  # the ranks' shares and losses, becomes the sums
    operation: Any


class _Like(NamedTuple):
    """A tensor of an optimizer's state that has the parameter's shape."""

    dtype: torch.dtype


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
        self._pending: _PendingAverage | None = None
        self._finished: _PendingAverage | None = None  # applied before its time
        self._noted: tuple[float, Any] = (1.0, 0.0)  # samples and loss of the next step
        # the step of a scaler that has looked at the gradients, and made no step so far
        self._turn: Any = None
        self._is_counted = False  # because the scaler leaves it out
        self._at = time.monotonic()  # of the last average; of this process, so not in a checkpoint
        self._replicas: list[Replica] = []
        self._era = basics.incarnation()
        self.adopt()

    # ---- around a step

    def before_step(self) -> None:
        self._renew()
        if self.outer is not None:  # the first step starts where all ranks do
            for group in self._groups():
                known = group.setdefault(_KEY, {}).setdefault("outer", {})
                for number, parameter in enumerate(group["params"]):
                    if (
                        number not in known
                        and parameter.requires_grad
                        and parameter.is_floating_point()
                    ):
                        known[number] = _begun(parameter)

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
        for group in self._groups():
            moved = {n for n, p in enumerate(group["params"])
                     if p.requires_grad or p.grad is not None}  # fmt: skip
            _note(group.setdefault(_KEY, {}), moved)
        counted, self._turn, self._is_counted = self._is_counted, None, False
        if not counted:
            self._go_on(self._noted[0])

    def is_looked_at(self, turn: Any) -> None:
        """A scaler looks at the gradients, in this step of its own. It leaves the optimizer's step
        out where it finds an overflow, and the rank counts one all the same: so ranks average after
        the same steps."""
        if not (self._is_local and self._takes_part) or (turn is self._turn and turn is not None):
            return
        self.no_step_came()
        self._turn = turn
        self._is_counted = not scaling.are_finite(scaling.gradients_of(self._groups()))
        if self._is_counted:
            self.before_step()
            self._go_on(samples=0.0)

    def no_step_came(self) -> None:
        """Behind the last look of a scaler, if there was one: it has left out a step for a reason
        of its own."""
        missed = self._turn is not None and not self._is_counted
        self._turn, self._is_counted = None, False
        if missed:
            self.before_step()
            self._go_on(samples=0.0)

    def _go_on(self, samples: float) -> None:
        now, loss = time.monotonic(), float(self._noted[1])
        self._noted = 1.0, 0.0
        count = schedule.stepped(self.plan, self._count, now, np, samples, loss)
        self._keep(count)
        if not (self._is_local and self._takes_part):
            self.adopt()
        elif self.plan.is_cut:
            self._go_on_with_round(int(count.since))
        elif schedule.is_due(self.plan, count, now):
            self._average_all(trains=True)

    def sync(self) -> None:
        """Averages everything now. Until all ranks are here, this one takes part in the averages of
        those that still train, and weighs nothing there once its own steps are in."""
        if self._is_local and self._takes_part:
            self.no_step_came()
            self.finish()
            others_train = self._average_all(trains=False)
            while others_train:
                others_train = self._average_all(trains=False, weighs=False)

    def apply_early(self) -> None:
        """Applies the average that is under way, before its time and without a message: a rank
        makes checkpoints when it likes."""
        self._renew()
        if self._pending is not None:
            self._finished, self._pending = self._pending, None
            self._apply(self._finished)

    def finish(self) -> None:
        """Applies the average that is under way, on all ranks."""
        self.apply_early()
        if self._finished is not None:
            pending, self._finished = self._finished, None
            self._compare(pending.compared)

    def drop(self) -> None:
        """Forgets the average that is under way."""
        if self._pending is not None:
            for member in self._pending.members:
                _note(member.kept, {member.number})
        self._pending = self._finished = None
        self._turn, self._is_counted = None, False
        self._at = time.monotonic()

    def _renew(self) -> None:
        """In an elastic job with other ranks, what was under way will never end."""
        if self._era != basics.incarnation():
            self._era = basics.incarnation()
            self.drop()

    # ---- what is averaged when

    def _go_on_with_round(self, position: int) -> None:
        pending = self._pending or self._finished
        if pending and schedule.applied_after(self.plan, pending.fragment) == position:
            self.finish()
        for fragment, start in enumerate(schedule.starts(self.plan)):
            if start == position:
                self._pending = self._launch_fragment(fragment)
                if not self.plan.overlap:
                    self.finish()
        if position == self.plan.every:
            self._begin_interval(0.0)

    def _average_all(self, trains: bool, weighs: bool = True) -> bool:
        """Whether a rank goes on training behind it."""
        members = self._members()
        agreed = self._exchange(trains, members)
        due = [members[number] for number in agreed.moved]
        self._begin_interval(self._apply(self._launch("weights", due, due, weighs=weighs)))
        self._compare(due)
        return agreed.trains

    def _exchange(self, trains: bool, members: Sequence[_Member]) -> schedule.Agreed:
        """Hears from all ranks what is averaged."""
        known = [bool(self._state(each)) for each in members] if self.momentum == "average" else []
        mine = schedule.statement(trains, [each.moves for each in members], known)
        name = f"{self._scope}average"
        try:
            largest = ARRAYS.run_one(
                np.array(mine, np.uint8), ALLREDUCE, name, self._process_set, Max
            )
        except MismatchError as error:
            raise MismatchError(
                "Ranks have different numbers of parameters in this optimizer: add_param_group() "
                f"has to be called on all ranks, between the same averages. ({error})"
            ) from error
        agreed = schedule.agreed(largest.tolist(), len(members))
        if agreed.apart:
            self._complete([(number, members[number]) for number in agreed.apart])
        return agreed

    def _begin_interval(self, loss: float) -> None:
        now = time.monotonic()
        self._keep(schedule.averaged(self.plan, self._count, loss, now, np))

    # ---- an average

    def _launch_fragment(self, fragment: int) -> _PendingAverage:
        """The cut stays as it is when layers are frozen, or a round would leave some out."""
        for member in self._members():
            if member.moves:
                self._anchored(member)
        anchored = [member for member in self._members() if member.outer is not None]
        sizes = [each.parameter.numel() * each.parameter.element_size() for each in anchored]
        cut = drift.cuts(sizes, self.plan.fragments)[fragment]
        due = [anchored[number] for number in cut if anchored[number].moves]
        return self._launch(f"fragment.{fragment}", due, anchored, fragment)

    def _launch(self, name: str, due: list[_Member], compared: list[_Member], fragment: int = 0,
                weighs: bool = True) -> _PendingAverage:  # fmt: skip
        """Starts the sums over all ranks."""
        count = self._count
        share = float(schedule.share(self.plan, count, np)) if weighs else 0.0
        travels = self.plan.overlap > 0 and name != "weights"
        with torch.no_grad():
            parts = list(self._parts(due, share))
            launched = [each.target.clone() for each in parts] if travels else []
        loss = share * float(schedule.mean_loss(count, np))
        numbers = torch.tensor([share, loss], dtype=torch.float64)
        call = Call(ALLREDUCE, f"{self._scope}{name}", self._process_set, Sum, in_place=True,
                    grouped=True, patient=True)  # fmt: skip
        operation = OPS.start(call, [*(each.sent for each in parts), numbers])
        if travels:  # what moves from now on is of the next average
            _mark_averaged(due)
        return _PendingAverage(fragment, due, compared, parts, launched, numbers, operation)

    def _parts(self, due: Sequence[_Member], share: float) -> Iterator[_Part]:
        """LocalSGD sends weights, DiLoCo how far they have moved."""
        if self.outer is None:
            for tensor in [member.parameter.detach() for member in due]:
                yield _Part(tensor, self._weighed(tensor, share))
            for member in due if self.momentum == "average" else ():
                for tensor in self._state(member):
                    yield _Part(tensor, self._weighed(tensor, share))
            return
        for member in due:
            parameter = member.parameter
            anchor, velocity = self._anchored(member)
            moved = anchor - parameter.detach()
            resets = parameter if self.momentum == "reset" else None
            yield _Part(parameter.detach(), self._weighed(moved, share), anchor, velocity, resets)

    def _weighed(self, tensor: torch.Tensor, share: float) -> torch.Tensor:
        """Of 16 bits, a weight times many samples would be infinite."""
        if not self.plan.is_timed:
            return tensor if share else torch.zeros_like(tensor)
        return tensor.to(_WIDE.get(tensor.dtype, tensor.dtype)) * share

    def _apply(self, pending: _PendingAverage) -> float:
        """Waits for the sums. Returns the mean loss of all ranks."""
        engine.run_now(pending.operation)
        total, loss = pending.numbers.tolist()
        with torch.no_grad():
            for number, part in enumerate(pending.parts):
                result = part.sent.div_(total)
                if part.anchor is not None:
                    result = self._outer_step(part)
                if part.parameter is not None:
                    self._optimizer.state.pop(part.parameter, None)
                if pending.launched:  # the rank has moved on meanwhile
                    part.target.add_(result - pending.launched[number])
                elif result is not part.target:
                    part.target.copy_(result)
        if not pending.launched:
            _mark_averaged(pending.members)
        self.averages += 1
        return float(loss / total)

    def _outer_step(self, part: _Part) -> torch.Tensor:
        """The new anchor."""
        assert self.outer is not None and part.anchor is not None
        anchor, velocity = outer_step(self.outer, part.anchor, part.sent, part.velocity, torch)
        part.anchor.copy_(anchor)
        if part.velocity is not None:
            part.velocity.copy_(velocity)
        return part.anchor

    def _compare(self, members: Sequence[_Member]) -> None:
        """Right behind an average, and at no other time, ranks have the same: the weights, or with
        DiLoCo the anchors."""
        guard: DriftGuard = self._optimizer._hvd.guard
        names = self._optimizer._parameter_names
        self._replicas[:] = [
            Replica(names[each.parameter], each.outer[0] if each.outer else each.parameter)
            for each in members
        ]
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
        if not self._is_local and not schedule.is_synchronous(self.plan, self._count):
            self._become_local()
        elif self._is_local:  # also those that are frozen: they may have moved, and may be thawed
            declare_own(p for group in self._groups() for p in group["params"])

    def _groups(self) -> list[dict[str, Any]]:
        groups: list[dict[str, Any]] = self._optimizer.__dict__["param_groups"]
        return groups

    def _members(self) -> list[_Member]:
        """All parameters of the optimizer."""
        found = []
        for group in self._groups():
            kept = group.setdefault(_KEY, {})
            moved = frozenset(kept.get("moved", ()))
            for number, parameter in enumerate(group["params"]):
                moves = parameter.is_floating_point() and (
                    parameter.requires_grad or number in moved
                )
                found.append(_Member(parameter, moves, number, kept))
        return found

    @property
    def _count(self) -> Count:
        group = self._groups()[0]
        numbers = group.get(_KEY, {}).get("count")
        if not numbers:
            return schedule.begin(self.plan, self._at)
        return Count._make([*numbers, self._at])

    def _keep(self, count: Count) -> None:
        *numbers, at = map(float, count)
        self._groups()[0].setdefault(_KEY, {})["count"] = numbers
        self._at = at

    def _anchored(self, member: _Member) -> list[torch.Tensor]:
        """The parameter's anchor and velocity. A parameter that is new starts where it is."""
        parameter, found = member.parameter, member.outer
        if found is None:
            found = _begun(parameter)
        elif found[0].device != parameter.device:  # of a checkpoint
            found = [each.to(parameter.device) for each in found]
        member.kept.setdefault("outer", {})[member.number] = found
        return found

    def _state(self, member: _Member) -> list[torch.Tensor]:
        """What the optimizer remembers of the parameter's gradients: momentum, and averages of
        squares."""
        known = self._optimizer.state.get(member.parameter, {})
        return [known[name] for name in sorted(known) if _is_like(known[name], member.parameter)]

    def _complete(self, apart: Sequence[tuple[int, _Member]]) -> None:
        """Begins the state of parameters that this rank has not used so far, and others have: with
        zeros, and the counters of the first rank that has them."""
        state = self._optimizer.state
        mine = {number: _described(state[each.parameter], each.parameter)
                for number, each in apart if self._state(each)}  # fmt: skip
        everyones = allgather_object(mine, f"{self._scope}state", self._process_set)
        for number, member in apart:
            if not self._state(member):
                told = next(each[number] for each in everyones if number in each)
                state[member.parameter] = {
                    name: _built(value, member.parameter) for name, value in told.items()
                }


def _begun(parameter: torch.Tensor) -> list[torch.Tensor]:
    """An anchor and a velocity."""
    now = parameter.detach()
    return [now.clone(), torch.zeros_like(now)]


def _note(kept: dict[str, Any], moved: set[int]) -> None:
    before = kept.get("moved", [])
    if not moved.issubset(before):
        kept["moved"] = sorted(moved.union(before))


def _mark_averaged(members: Sequence[_Member]) -> None:
    """They have been averaged."""
    groups = {id(member.kept): member.kept for member in members}
    cleared = {(id(member.kept), member.number) for member in members}
    for key, kept in groups.items():
        kept["moved"] = [n for n in kept.get("moved", ()) if (key, n) not in cleared]


def _is_like(value: Any, parameter: torch.Tensor) -> bool:
    return (
        isinstance(value, torch.Tensor) and value.shape == parameter.shape
        and value.is_floating_point() and value.dim() > 0
    )  # fmt: skip


def _described(known: dict[str, Any], parameter: torch.Tensor) -> dict[str, Any]:
    """An optimizer's state of a parameter, without what is averaged. Tensors come with whether they
    are in host memory."""
    return {
        name: _Like(value.dtype) if _is_like(value, parameter)
        else (value.detach().cpu(), value.is_cpu) if isinstance(value, torch.Tensor)
        else value
        for name, value in known.items()
    }  # fmt: skip


def _built(value: Any, parameter: torch.Tensor) -> Any:
    """The reverse."""
    if isinstance(value, _Like):
        return torch.zeros_like(parameter, dtype=value.dtype)
    if isinstance(value, tuple):
        tensor, on_host = value
        return tensor if on_host else tensor.to(parameter.device)
    return value
