"""Reduces gradients while the backward pass goes on: a hook per parameter submits, synchronize() waits.

Most gradients (dense, contiguous, in host memory, not compressed) are submitted as they are, in place, and that way is
short (`direct`). What the core refuses to take like this goes the long way, as all do that are compressed, and
`_Flight.finish` brings it home.
"""

from __future__ import annotations

import weakref
import zlib
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils.weak import WeakTensorKeyDictionary

from hvdlite.adapter import divergence, engine
from hvdlite.adapter.aggregation import Aggregation, Unit
from hvdlite.adapter.compression import Settled, wait_for
from hvdlite.ops import Max
from hvdlite.process_sets import ProcessSet
from hvdlite.torch import sparse
from hvdlite.torch.ops import OPS

# Who hooks a parameter: an optimizer that is made anew for the same model takes over from the one before.
_hooks: Any = WeakTensorKeyDictionary()


@dataclass(frozen=True)
class Settings:
    op: int
    prescale: float
    postscale: float
    compression: Settled
    sparse_as_dense: bool
    process_set: ProcessSet
    scope: str


class _Flight:
    """A gradient, or a group of them, and its operation under way."""

    __slots__ = ("directly", "error", "finish", "gradient", "label", "name", "parameter", "sparse")

    def __init__(self, parameter: Any, scope: str, label: str, directly: bool) -> None:
        self.parameter = parameter
        self.label = label  # for people
        self.name = scope + label
        self.directly = directly  # until it has been refused
        self.gradient: torch.Tensor | None = None  # what went directly, while it is under way
        self.finish: Callable[[], None] | None = None
        self.error: Exception | None = None
        self.sparse: torch.Tensor | None = None  # an empty gradient of the kind that this parameter once had


class GradientReducer:
    def __init__(self, settings: Settings, passes: int) -> None:
        self.settings = settings
        self.aggregation = Aggregation(passes)
        self.direct: list[_Flight] = []
        self.others: deque[_Flight] = deque()
        self.flights: list[_Flight] = []
        self.synchronized = ""  # since gradients last arrived: "by the program", "by a scaler", or not
        self._groups: dict[Unit, _Flight] = {}
        self._natives: list[int] = []  # of `direct`
        self._submit = engine.submitter(settings.op, settings.prescale, settings.postscale)
        self._plain = settings.compression.is_none
        self._process_set = settings.process_set
        self._checked = divergence.mode() == "off"
        self._everybody: torch.Tensor | None = None

    # ---- who takes part

    def add(self, parameter: torch.Tensor, name: str) -> int:
        """Reduces the gradient of this parameter from now on. Returns its number."""
        number = self.aggregation.add()
        self.flights.append(_Flight(parameter, self.settings.scope, name, self._plain))
        previous = _hooks.pop(parameter, None)
        if previous is not None:
            previous.remove()
        _hooks[parameter] = _register(parameter, _hook(weakref.ref(self), number))
        return number

    def group(self, members: Sequence[int], name: str) -> None:
        """These are reduced together, or not at all."""
        if len(members) > 1:
            self.aggregation.group(members)
            self._groups[tuple(members)] = _Flight(None, self.settings.scope, name, False)

    # ---- on the way out

    def arrived(self, unit: Unit) -> None:
        """The gradients of these, the last of them just now, have been accumulated."""
        self.synchronized = ""
        if len(unit) == 1:
            self._launch(self.flights[unit[0]])
        else:
            self._launch_group(unit)

    def _launch(self, flight: _Flight) -> None:
        gradient = flight.parameter.grad
        if flight.directly:
            try:
                # A set that is not registered has no number; the other way says so.
                self._natives.append(self._submit(self._process_set.process_set_id, flight.name, gradient))
                flight.gradient = gradient
                self.direct.append(flight)
                return
            except Exception:
                flight.directly = False
        try:
            with torch.no_grad():
                flight.finish = self._start(flight, gradient)
        except Exception as error:  # a hook's exception would end the backward pass somewhere; step() raises it
            flight.error = error
            flight.directly = self._plain  # it was not the way's fault
        self.others.append(flight)

    def _start(self, flight: _Flight, gradient: torch.Tensor) -> Callable[[], None]:
        settings, parameter = self.settings, flight.parameter
        if gradient.layout != torch.strided:
            flight.sparse = sparse.empty_like(gradient)
            if settings.sparse_as_dense:
                dense = gradient.to_dense()
                pending = self._allreduce(dense, flight.name)

                def to_sparse() -> None:
                    parameter.grad = engine.run_now(pending).to_sparse(gradient.sparse_dim())

                return to_sparse
            gather = sparse.start(OPS, gradient, flight.name, settings.op, settings.process_set)

            def gathered() -> None:
                parameter.grad = gather()

            return gathered
        compression = settings.compression
        payload, context = compression.compress(gradient.detach(), flight.name)
        if compression.communicate is not None:
            handle = compression.communicate(payload, flight.name, settings.op, settings.process_set)
            return lambda: _assign(parameter, compression.decompress(wait_for(handle), context))
        pending = self._allreduce(payload, flight.name)
        return lambda: _assign(parameter, compression.decompress(engine.run_now(pending), context))

    def _allreduce(self, tensor: torch.Tensor, name: str) -> engine.Pending:
        s = self.settings
        return OPS.allreduce(tensor, name, s.op, s.prescale, s.postscale, s.process_set, in_place=True)

    def _launch_group(self, unit: Unit) -> None:
        group = self._groups[unit]
        flights = [self.flights[n] for n in unit]
        for flight in flights:
            if flight.parameter.grad.layout != torch.strided:
                self._launch(flight)  # sparse ones cannot travel in a group
        dense = [f.parameter for f in flights if f.parameter.grad.layout == torch.strided]
        self.others.append(group)
        try:
            with torch.no_grad():
                group.finish = self._start_group(group.name, dense)
        except Exception as error:
            group.error = error

    def _start_group(self, name: str, parameters: list[torch.Tensor]) -> Callable[[], None]:
        s = self.settings
        packed = [
            s.compression.compress(p.grad.detach(), f"{name}.{i}")
            for i, p in enumerate(parameters)
            if p.grad is not None
        ]
        payloads = [payload for payload, _ in packed]
        pending = OPS.grouped_allreduce(payloads, name, s.op, s.prescale, s.postscale, s.process_set, in_place=True)

        def finish() -> None:
            for parameter, result, (_, context) in zip(parameters, engine.run_now(pending), packed, strict=True):
                _assign(parameter, s.compression.decompress(result, context))

        return finish

    # ---- coming home

    def synchronize(self) -> None:
        """Reduces what has not been reduced in this step, and waits for everything. The first error is raised."""
        absent: list[int] = []
        presence = None
        error: Exception | None = None
        if not self._checked:
            self._checked = True
            try:
                self._check_parameters()
            except Exception:
                self.abandon()  # what is under way may never meet its like
                raise
        try:
            rest = self.aggregation.rest()
            absent = [n for unit in rest for n in unit if self.flights[n].parameter.grad is None]
            for number in absent:
                flight = self.flights[number]
                flight.parameter.grad = torch.zeros_like(flight.parameter) if flight.sparse is None else flight.sparse
            presence = self._announce(absent)
            for unit in rest:
                if len(unit) == 1:
                    self._launch(self.flights[unit[0]])
                else:
                    self._launch_group(unit)
        except Exception as failed:
            error = failed
        try:
            self._land()
        except Exception as failed:
            error = error or failed
        try:
            seen = None if presence is None else engine.run_now(presence)
        except Exception as failed:
            error = error or failed
        if error is not None:
            self.aggregation.reset()
            raise error
        for number in absent:
            if seen is not None and not seen[number]:
                self.flights[number].parameter.grad = None  # nobody has one: as without hvdlite

    def _land(self) -> None:
        """Waits for everything. Ctrl-C ends the wait, and what is under way stays noted."""
        error: Exception | None = None
        try:
            engine.wait_all(self._natives)
        except Exception as failed:
            error = failed
        for flight in self.direct:
            if flight.parameter.grad is not flight.gradient:
                error = error or AssertionError(
                    f"The gradient of '{flight.label}' was replaced between backward() and step(). Call model.zero_grad() "
                    "after step(), or optimizer.synchronize() before changing gradients."
                )
            flight.gradient = None
        self.direct.clear()
        while self.others:
            flight = self.others[0]
            try:
                if flight.error is not None:
                    raise flight.error
                if flight.finish is not None:
                    with torch.no_grad():
                        flight.finish()
            except Exception as failed:
                error = error or failed
            flight.finish = flight.error = None
            self.others.popleft()
        if error is not None:
            raise error

    def _announce(self, absent: list[int]) -> engine.Pending | None:
        """Tells the others which gradients this rank has, so that one that nobody has can stay None everywhere."""
        if self._everybody is None or len(self._everybody) != len(self.flights):
            self._everybody = torch.ones(len(self.flights), dtype=torch.uint8)
        mine = self._everybody
        if absent:
            mine = mine.clone()
            mine[absent] = 0
        name = f"{self.settings.scope}gradients present"
        return OPS.allreduce(mine, name, Max, 1.0, 1.0, self.settings.process_set)

    def _check_parameters(self) -> None:
        prints = [_fingerprint(flight.parameter) for flight in self.flights]
        divergence.check([f.label for f in self.flights], prints, self.settings.scope, self.settings.process_set)

    def abandon(self) -> None:
        """Forgets what is under way, after an exception in the middle of a step; the core holds the memory."""
        for flight in (*self.direct, *self.others):
            flight.gradient = flight.finish = flight.error = None
        for each in (self._natives, self.direct, self.others):
            each.clear()
        self.aggregation.reset()


def _assign(parameter: torch.Tensor, gradient: torch.Tensor) -> None:
    if parameter.grad is None:
        parameter.grad = gradient
    elif parameter.grad.data_ptr() != gradient.data_ptr():
        parameter.grad.copy_(gradient)


def _fingerprint(parameter: torch.Tensor) -> int:
    # Of some thousand elements: whoever has drawn other random numbers differs everywhere.
    flat = parameter.detach().reshape(-1)
    sample = flat[:: max(1, flat.numel() // 8192)].cpu().contiguous()
    return zlib.crc32(sample.view(torch.uint8).numpy().tobytes(), flat.numel() & 0xFFFFFFFF)


def _hook(reference: Callable[[], GradientReducer | None], number: int) -> Callable[[Any], None]:
    # Weak: parameters would keep the optimizer alive for ever.
    # Once per gradient, so without detours.
    def hook(parameter: Any) -> None:
        reducer = reference()
        if reducer is not None:
            unit = reducer.aggregation.arrived(number)
            if unit:
                reducer.arrived(unit)

    return hook


class _ByNode:
    """For torch before register_post_accumulate_grad_hook: a hook of the node that accumulates the gradient."""

    def __init__(self, parameter: torch.Tensor, hook: Callable[[Any], None]) -> None:
        node: Any = parameter.expand_as(parameter).grad_fn.next_functions[0][0]  # type: ignore[union-attr]
        self._node = node  # lives as long as somebody holds it
        self._handle = node.register_hook(lambda *ignored: hook(parameter))

    def remove(self) -> None:
        self._handle.remove()


def _register(parameter: torch.Tensor, hook: Callable[[Any], None]) -> Any:
    register = getattr(parameter, "register_post_accumulate_grad_hook", None)
    return register(hook) if register is not None else _ByNode(parameter, hook)
