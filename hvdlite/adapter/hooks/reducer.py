"""Reduces gradients during the backward pass: a hook per parameter submits, synchronize() waits.

For a framework whose parameters keep their gradients and call hooks when these are complete. A
native hook submits most gradients as they are, in place: dense, contiguous, in host memory, not
compressed, after one backward pass, in no group. It refuses the others. For these `arrived` counts,
`_launch` starts the operation, and `PendingGradient.finish` waits for it. Small gradients form
lists (csrc/bindings/gradient_hooks.cc). If a list is not complete when the step ends, its gradients
travel alone.
"""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Callable, Iterable, MutableMapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from hvdlite.adapter import names
from hvdlite.adapter.agreement import divergence, presence
from hvdlite.adapter.agreement.drift_guard import DriftGuard
from hvdlite.adapter.agreement.presence_exchange import PresenceExchange
from hvdlite.adapter.compression.methods import DENSE, Momentum
from hvdlite.adapter.compression.rounds import OneRound, RoundRunner, wait_all
from hvdlite.adapter.hooks.aggregation import Aggregation, Unit
from hvdlite.adapter.hooks.momenta import Momenta
from hvdlite.adapter.hooks.primitives import Gradients
from hvdlite.adapter.step import Options, check_passes
from hvdlite.base.operations import ALLREDUCE
from hvdlite.base.ops import Sum
from hvdlite.core import engine
from hvdlite.core.framework import Tensor
from hvdlite.core.operations import Call


class GradientReducer:
    def __init__(self, settings: Options, gradients: Gradients) -> None:
        self.settings = settings
        self._gradients = gradients
        self._how = (settings.process_set, settings.op, settings.prescale, settings.postscale)
        self.entries: list[PendingGradient] = []
        self._aggregation = Aggregation(settings.passes)
        self._direct = engine.GradientHooks(
            settings.op, settings.prescale, settings.postscale, settings.process_set
        )
        self._started: deque[PendingGradient] = deque()
        self._groups: dict[Unit, PendingGradient] = {}
        self._synchronized = ""
        self._method = settings.compression.method
        settings.compression.serve(self)
        self._momenta = Momenta(self._method, gradients, settings.process_set)
        self._checked = divergence.mode() == "off"
        # the reducers made before and after this one
        self._earlier, self._later = Sharers(), Sharers()
        self.guard = DriftGuard(
            settings.scope, settings.process_set, self.entries, gradients.reader
        )
        self.presence_exchange = PresenceExchange(settings, self.guard)
        # parameters that have not required a gradient so far, with their places
        self._frozen: list[tuple[int, Any]] = []
        # of gradients in flight, by place: how many of their dimensions are sparse
        self._sparse: dict[int, int] = {}

    # ---- which parameters take part

    def expect(self, parameter: Any, label: str) -> None:
        """A parameter of the optimizer, frozen until thaw()."""
        self._frozen.append((self.presence_exchange.expect(label), parameter))

    def thaw(self) -> None:
        """Reduces from now on the gradients of parameters that require one by now."""
        wanted = self._gradients.wanted
        thawed = [(place, parameter) for place, parameter in self._frozen if wanted(parameter)]
        self._frozen = [each for each in self._frozen if not wanted(each[1])]
        self._gradients.expect([parameter for _, parameter in thawed], self)
        for place, parameter in thawed:
            self._add(parameter, place)

    def _add(self, parameter: Any, place: int) -> None:
        label = self.presence_exchange.labels[place]
        entry = PendingGradient(parameter, self.settings.scope, label, place)
        self.presence_exchange.train(place)
        number = self._aggregation.add()
        self._direct.add(entry.name)
        self.entries.append(entry)
        self._ask_compression(number)
        hook = self._direct.hook(number, _hook(self, number))
        earlier = self._gradients.take(parameter, self, hook)
        if earlier is not None:
            self._earlier.note(entry.label, earlier)
            earlier._later.note(entry.label, self)

    def group(self, members: Sequence[int], name: str) -> None:
        """These are reduced together, or not at all."""
        if len(members) > 1:
            self._aggregation.group(members)
            self._groups[tuple(members)] = PendingGradient(None, self.settings.scope, name)
            for number in members:
                self._update_hook(number)

    def set_passes(self, passes: int) -> None:
        """Gradients travel after so many backward passes. Counting begins anew."""
        self._aggregation.passes = passes
        for number in range(len(self.entries)):
            self._update_hook(number)
        self._begin()

    def _update_hook(self, number: int) -> None:
        self._direct.permit(
            number, self.entries[number].directly and self._aggregation.travels_at_once(number)
        )

    def _ask_compression(self, number: int) -> None:
        """How this gradient is sent in the next step."""
        entry = self.entries[number]
        if self._method is None:
            self._permit(number, self.settings.compression.is_none)
            return
        shape = self._gradients.ops.framework.shape(entry.parameter)
        part = self._method.part(entry.label, shape)
        entry.momentum = part.momentum
        self._permit(number, part is DENSE)

    def _permit(self, number: int, directly: bool) -> None:
        self.entries[number].directly = directly
        self._update_hook(number)

    # ---- what the optimizer asks

    @property
    def under_way(self) -> bool:
        return bool(self._direct.under_way or self._started)

    @property
    def synchronized(self) -> str:
        """Since gradients last arrived: "by the program", "by a scaler", or not."""
        return "" if self.under_way else self._synchronized

    @synchronized.setter
    def synchronized(self, how: str) -> None:
        self._synchronized = how

    def why_too_early(self) -> str:
        """Why gradients may be in flight although the program has done nothing wrong with this
        optimizer."""
        shared = self._earlier.named()
        return _MADE_BEFORE.format(shared) if shared else ""

    # ---- submitting

    def arrived(self, number: int) -> None:
        """A backward pass has computed this gradient. The native hook refuses it, or has submitted
        it already."""
        self._synchronized = ""
        try:
            self._count(self._direct.take_submitted())
            unit = self._aggregation.arrived(number)
        except AssertionError as error:
            raise AssertionError(f"{error}{self.why_too_early()}") from None
        if unit:
            self._go((unit,))

    def _count(self, left: Sequence[int]) -> None:
        for number in left:
            self._aggregation.arrived(number)

    def _go(self, units: Iterable[Unit]) -> None:
        with self._gradients.unrecorded():
            for unit in units:
                if len(unit) == 1:
                    self._launch(unit[0])
                elif unit:
                    self._launch_group(unit)

    def _launch(self, number: int) -> None:
        entry = self.entries[number]
        if entry.directly:
            if self._direct.submit(number, entry.parameter):
                return
            self._permit(number, False)
        try:
            if entry.momentum is not None:
                self._momenta.add([entry])
                if self._direct.submit(number, entry.parameter):
                    return
            entry.finish = self._start(entry, self._gradients.of(entry.parameter))
        # a hook's exception would end the backward pass somewhere; step() raises it
        except Exception as error:
            entry.error = error
            self._ask_compression(number)  # it is not to blame
        self._started.append(entry)

    def _start(self, entry: PendingGradient, gradient: Tensor) -> Callable[[], None]:
        settings, parameter, kept = self.settings, entry.parameter, self._gradients
        if kept.is_dense(gradient):
            call = self._call(entry.name)
            if entry.momentum is not None:
                step = kept.ops.start(call, [gradient])
                return lambda: kept.put(parameter, engine.run_now(step))
            runner = settings.compression.start(kept.ops, call, gradient, entry.label)
            entry.runner = runner
            return lambda: kept.put(parameter, runner.result())
        self._sparse[entry.place] = kept.sparse_dimensions(gradient)
        if settings.sparse_as_dense:
            pending = kept.ops.start(self._call(entry.name), [kept.to_dense(gradient)])
            return lambda: kept.replace(
                parameter, kept.to_sparse(engine.run_now(pending), gradient)
            )
        gathered = kept.start_sparse(gradient, entry.name, settings.op, settings.process_set)
        return lambda: kept.replace(parameter, gathered())

    def _call(self, name: str, grouped: bool = False) -> Call:
        return Call(ALLREDUCE, name, *self._how, in_place=True, grouped=grouped, patient=True)

    def _launch_group(self, unit: Unit) -> None:
        group = self._groups[unit]
        dense = []
        for i, number in enumerate(unit):
            parameter = self.entries[number].parameter
            gradient = self._gradients.of(parameter)
            if gradient is None:
                continue  # on no rank
            if self._gradients.is_dense(gradient):
                dense.append((f"{group.name}.{i}", parameter))
            else:
                self._launch(number)  # sparse ones cannot travel in a group
        if not dense:
            return
        self._started.append(group)
        try:
            group.finish = self._start_group(group.name, dense)
        except Exception as error:
            group.error = error

    def _start_group(self, name: str, members: list[tuple[str, Any]]) -> Callable[[], None]:
        compression, kept = self.settings.compression, self._gradients
        packed = [compression.compress(kept.of(p), label) for label, p in members]
        pending = kept.ops.start(self._call(name, grouped=True), [payload for payload, _ in packed])

        def finish() -> None:
            for (_, parameter), result, (_, context) in zip(
                members, engine.run_now(pending), packed, strict=True
            ):
                kept.put(parameter, compression.decompress(result, context))

        return finish

    # ---- waiting

    def synchronize(self) -> None:
        """Reduces what has not been reduced in this step, and waits for everything. The first error
        is raised."""
        if self._frozen:
            self.thaw()
        try:
            self._check_sharers()
            self._check_parameters()
            rest = self._rest()
            complete, lacking, dimensions = self._look(rest)
            # Another optimizer may have a sum of a shared gradient in flight.
            ready = [] if self._earlier.named() or self._later.named() else complete
            self._momenta.add(self.entries[number] for unit in ready for number in unit)
            meanwhile = partial(self._go, ready) if ready else None
            heard = self.presence_exchange.exchange(lacking, dimensions, meanwhile)
            known = set(ready)
            self._go(self._completed(unit, heard) for unit in rest if unit not in known)
        except Exception:
            self.abandon()  # other ranks may never submit what is in flight
            raise
        try:
            self._wait()
        except Exception:
            self._begin()
            raise
        self._sparse.clear()
        if self._method is not None and self._method.stepped(self.settings.process_set):
            for number in range(len(self.entries)):
                self._ask_compression(number)

    def _rest(self) -> list[Unit]:
        """The units that have not travelled in this step. The step is over."""
        self._go((number,) for number in self._direct.flush())
        left = self._direct.take_submitted()
        if len(left) == len(self.entries):  # none has been counted
            rest = []
        else:
            self._count(left)
            rest = self._aggregation.rest()
        self._direct.begin_step()
        return rest

    def _begin(self) -> None:
        """As if no gradient had arrived."""
        self._sparse.clear()
        self._momenta.forget()
        self._aggregation.reset()
        self._direct.begin_step()

    def _wait(self) -> None:
        """Waits for everything. Ctrl-C ends the wait, and what is in flight stays noted."""
        error: Exception | None = None
        try:
            engine.wait_all(self._direct.handles)
        except Exception as failed:
            error = failed
        self._direct.form_lists()
        for number in self._direct.finish():
            error = error or AssertionError(
                f"The gradient of '{self.entries[number].label}' was replaced between backward() "
                "and step(). Call model.zero_grad() after step(), or optimizer.synchronize() "
                f"before changing gradients.{self.why_too_early()}"
            )
        wait_all([entry.runner for entry in self._started if entry.runner is not None])
        with self._gradients.unrecorded():
            while self._started:
                entry = self._started[0]
                try:
                    if entry.error is not None:
                        raise entry.error
                    if entry.finish is not None:
                        entry.finish()
                except Exception as failed:
                    error = error or failed
                entry.finish = entry.runner = entry.error = None
                self._started.popleft()
        if error is not None:
            raise error
        self._momenta.keep()

    def _look(self, rest: Sequence[Unit]) -> tuple[list[Unit], set[int], dict[int, int]]:
        """The units of which this rank has all gradients, and dense ones; the places of those that
        it lacks; and how many dimensions of which ones are sparse."""
        kept, dimensions = self._gradients, dict(self._sparse)
        complete: list[Unit] = []
        lacking: set[int] = set()
        for unit in rest:
            found = 0
            for entry in (self.entries[number] for number in unit):
                gradient = kept.of(entry.parameter)
                if gradient is None:
                    lacking.add(entry.place)
                elif kept.is_dense(gradient):
                    found += 1
                elif sparse := kept.sparse_dimensions(gradient):
                    dimensions[entry.place] = sparse
            if found == len(unit):
                complete.append(unit)
        return complete, lacking, dimensions

    def _completed(self, unit: Unit, heard: Sequence[int] | None) -> Unit:
        """With zeros for what this rank lacks, of the kind that others have. What no rank has stays
        None, as without hvdlite."""
        if heard is None:
            return unit
        kept, present = self._gradients, False
        for entry in (self.entries[number] for number in unit):
            if kept.of(entry.parameter) is None:
                first, dimensions = presence.said_of(entry.place, heard)
                if not dimensions and first != presence.DENSE:
                    continue
                kept.replace(entry.parameter, kept.zeros(entry.parameter, dimensions))
            present = True
        return unit if present else ()

    def _check_sharers(self) -> None:
        shared = self._later.named()
        if shared and self.settings.op == Sum:  # an average of averages is the average
            raise RuntimeError(_MADE_LATER.format(shared))

    def _check_parameters(self) -> None:
        if self._checked:
            return
        self._checked = True
        parameters = [entry.parameter for entry in self.entries]
        prints = [
            0 if self.guard.leaves_out(each) else self._gradients.fingerprint(each)
            for each in parameters
        ]
        labels = [entry.label for entry in self.entries]
        settings = self.settings
        how = settings.described()
        if divergence.check(labels, prints, settings.scope, settings.process_set, how):
            self.guard.is_known_to_differ()

    def stop(self) -> None:
        """Gradients stay where they are from now on."""
        self.abandon()
        for entry in self.entries:
            self._gradients.release(entry.parameter)

    def abandon(self) -> None:
        """Forgets what is in flight, after an exception in the middle of a step; the core holds the
        memory."""
        self._direct.forget()
        for entry in self._started:
            entry.finish = entry.runner = entry.error = None
        self._started.clear()
        self._sparse.clear()
        self._momenta.forget()
        self._aggregation.reset()


# ---- parameters that several optimizers have


_MADE_BEFORE = (
    " This optimizer shares {} with an earlier hvd.DistributedOptimizer. Every backward pass "
    "reduces gradients of shared parameters for the optimizer that was made last, which is this "
    "one. Put all parameters into one optimizer with several param groups, or make this one when "
    "the other is no longer used."
)
_MADE_LATER = (
    "The gradient of {} would be added up twice: another hvd.DistributedOptimizer, made later, "
    "shares the parameter and "
    "reduces it. With op=Sum, put all parameters into one optimizer, with several param groups."
)


class Sharers:
    """The parameters that a reducer has in common with others, as long as these exist."""

    def __init__(self) -> None:
        self._found: list[tuple[str, weakref.ref[Any]]] = []

    def note(self, label: str, other: Any) -> None:
        self._found.append((label, weakref.ref(other)))

    def named(self) -> str:
        """The first of these parameters, and how many more; empty if there are none."""
        labels = [label for label, other in self._found if other() is not None]
        if not labels:
            return ""
        return f"'{labels[0]}'" + (f" (and {len(labels) - 1} more)" if len(labels) > 1 else "")


# ---- what the reducer knows of a gradient


class PendingGradient:
    """A gradient, or a group of them, and its operation in flight."""

    __slots__ = (
        "directly", "error", "finish", "label", "momentum", "name", "parameter", "place", "runner",
    )  # fmt: skip

    def __init__(self, parameter: Any, scope: str, label: str, place: int = -1) -> None:
        self.parameter = parameter
        self.place = place  # among all parameters of the optimizer
        self.label = label  # for people
        self.name = scope + label
        self.directly = False  # as it is, in place: until that has been refused
        self.momentum: Momentum | None = None  # that it gets on this rank; then it goes as it is
        self.finish: Callable[[], None] | None = None  # waits for it, and sets the gradient
        self.runner: RoundRunner | OneRound | None = None  # of a gradient that is compressed
        self.error: Exception | None = None


def _hook(reducer: Any, number: int) -> Callable[[Any], None]:
    """Tells the reducer that a gradient of this number has arrived."""
    # Weak: parameters would keep the optimizer alive for ever.
    reference = weakref.ref(reducer)

    def hook(parameter: Any) -> None:
        living = reference()
        if living is not None:
            living.arrived(number)

    return hook


# ---- between an optimizer and its reducer


Pairs = list[tuple[str, Any]]  # names and parameters


class Reduction:
    """What was asked for, what has synchronized the step, and which parameters there are.

    There is no reducer where this rank reduces with no other. `rebuild` is what a pickle calls.
    """

    def __init__(self, options: Options, pairs: Pairs, rebuild: Callable[..., Any]) -> None:
        self.options = options
        self.rebuild = rebuild
        self.named = pairs
        self.synchronizes = True
        self.compression = options.compression
        self.reducer: GradientReducer | None = None
        self.guard: DriftGuard | None = None
        self._scaled: Any = None  # the scaler's step in which gradients were reduced for it

    @property
    def synchronized(self) -> str:
        return "" if self.reducer is None else self.reducer.synchronized

    @synchronized.setter
    def synchronized(self, how: str) -> None:
        if self.reducer is not None:
            self.reducer.synchronized = how

    @property
    def under_way(self) -> bool:
        return self.reducer is not None and self.reducer.under_way

    def why_too_early(self) -> str:
        return "" if self.reducer is None else self.reducer.why_too_early()

    def synchronize(self) -> None:
        if self.reducer is not None:
            self.reducer.synchronize()

    def synchronize_once(self, step: Any) -> None:
        """Reduces what has not been reduced in this step of a scaler."""
        # A step that the scaler has skipped leaves its mark.
        if not self.synchronized or (
            self.synchronized == "by a scaler" and step is not self._scaled
        ):
            self.synchronize()
            self.synchronized, self._scaled = "by a scaler", step

    def forget(self) -> None:
        self.synchronized = ""
        if self.reducer is not None:
            self.reducer.abandon()

    def set_passes(self, passes: int) -> None:
        check_passes(passes)
        if self.reducer is not None:
            self.reducer.set_passes(passes)
        self.options = replace(self.options, passes=passes)

    def start(
        self, scope: str, gradients: Gradients, kind: type[GradientReducer] = GradientReducer
    ) -> None:
        self.reducer = kind(replace(self.options, scope=scope), gradients)
        self.guard = self.reducer.guard

    def stop(self) -> None:
        """Gradients stay on this rank from now on."""
        if self.reducer is not None:
            self.reducer.stop()
        self.reducer = self.guard = None

    def adopt(
        self, known: MutableMapping[Any, str], groups: Sequence[Sequence[Any]], own_names: Pairs
    ) -> None:
        """Names the parameters of these groups that are not `known`, and has their gradients
        reduced. `own_names`: what the optimizer calls them, if the program has not said."""
        pairs = self.named or own_names
        named = {id(p) for _, p in pairs}
        added = [p for group in groups for p in group if p not in known]
        if known and any(id(p) not in named for p in added):
            pairs = []  # added later, without a name
        labels = names.assigned(groups, pairs)
        known.update((parameter, labels[id(parameter)]) for parameter in added)
        if self.reducer is not None:
            for parameter in added:
                self.reducer.expect(parameter, known[parameter])
            self.reducer.thaw()
