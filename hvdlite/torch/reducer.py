"""Reduces gradients while the backward pass goes on: a hook per parameter submits, synchronize() waits.

Most gradients (dense, contiguous, in host memory, not compressed, after one backward pass, in no group) are submitted as
they are, in place, by a native hook. What that refuses goes the long way: `_hook` counts, `_launch` starts, and
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

    __slots__ = ("directly", "error", "finish", "label", "name", "parameter", "sparse")

    def __init__(self, parameter: Any, scope: str, label: str, directly: bool) -> None:
        self.parameter = parameter
        self.label = label  # for people
        self.name = scope + label
        self.directly = directly  # as it is, in place: until that has been refused
        self.finish: Callable[[], None] | None = None  # of the long way
        self.error: Exception | None = None
        self.sparse: torch.Tensor | None = None  # an empty gradient of the kind that this parameter once had


class GradientReducer:
    def __init__(self, settings: Settings, passes: int) -> None:
        self.settings = settings
        self.flights: list[_Flight] = []
        self._aggregation = Aggregation(passes)
        self._direct = engine.Departures(settings.op, settings.prescale, settings.postscale, settings.process_set)
        self._others: deque[_Flight] = deque()
        self._groups: dict[Unit, _Flight] = {}
        self._synchronized = ""
        self._plain = settings.compression.is_none
        self._checked = divergence.mode() == "off"
        self._everybody: torch.Tensor | None = None

    # ---- who takes part

    def add(self, parameter: torch.Tensor, name: str) -> int:
        """Reduces the gradient of this parameter from now on. Returns its number."""
        flight = _Flight(parameter, self.settings.scope, name, self._plain)
        number = self._aggregation.add()
        self._direct.add(flight.name)
        self.flights.append(flight)
        self._choose_way(number)
        previous = _hooks.pop(parameter, None)
        if previous is not None:
            previous.remove()
        _hooks[parameter] = _register(parameter, self._direct.hook(number, _hook(weakref.ref(self), number)))
        return number

    def group(self, members: Sequence[int], name: str) -> None:
        """These are reduced together, or not at all."""
        if len(members) > 1:
            self._aggregation.group(members)
            self._groups[tuple(members)] = _Flight(None, self.settings.scope, name, False)
            for number in members:
                self._choose_way(number)

    def set_passes(self, passes: int) -> None:
        """Gradients travel after so many backward passes. Counting begins anew."""
        self._aggregation.passes = passes
        for number in range(len(self.flights)):
            self._choose_way(number)
        self._begin()

    def _choose_way(self, number: int) -> None:
        self._direct.let_hook(number, self.flights[number].directly and self._aggregation.travels_at_once(number))

    def _permit(self, number: int, directly: bool) -> None:
        self.flights[number].directly = directly
        self._choose_way(number)

    # ---- what the optimizer asks

    @property
    def under_way(self) -> bool:
        return bool(self._direct.natives or self._others)

    @property
    def synchronized(self) -> str:
        """Since gradients last arrived: "by the program", "by a scaler", or not."""
        return "" if self.under_way else self._synchronized

    @synchronized.setter
    def synchronized(self, how: str) -> None:
        self._synchronized = how

    # ---- on the way out

    def arrived(self, number: int) -> None:
        """A backward pass has reached this gradient, which cannot leave by its hook or has already."""
        self._synchronized = ""
        self._count(self._direct.left())
        self._go(self._aggregation.arrived(number))

    def _count(self, left: Sequence[int]) -> None:
        for number in left:
            self._aggregation.arrived(number)

    def _go(self, unit: Unit) -> None:
        if len(unit) == 1:
            self._launch(unit[0])
        elif unit:
            self._launch_group(unit)

    def _launch(self, number: int) -> None:
        flight = self.flights[number]
        if flight.directly:
            if self._direct.leave(number, flight.parameter):
                return
            self._permit(number, False)
        try:
            with torch.no_grad():
                flight.finish = self._start(flight, flight.parameter.grad)
        except Exception as error:  # a hook's exception would end the backward pass somewhere; step() raises it
            flight.error = error
            self._permit(number, self._plain)  # it was not the way's fault
        self._others.append(flight)

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
        parameters = [self.flights[n].parameter for n in unit]
        for number, parameter in zip(unit, parameters, strict=True):
            if parameter.grad.layout != torch.strided:
                self._launch(number)  # sparse ones cannot travel in a group
        dense = [p for p in parameters if p.grad.layout == torch.strided]
        self._others.append(group)
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
            rest = self._rest()
            absent = [n for unit in rest for n in unit if self.flights[n].parameter.grad is None]
            for number in absent:
                flight = self.flights[number]
                flight.parameter.grad = torch.zeros_like(flight.parameter) if flight.sparse is None else flight.sparse
            presence = self._announce(absent)
            for unit in rest:
                self._go(unit)
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
            self._begin()
            raise error
        for number in absent:
            if seen is not None and not seen[number]:
                self.flights[number].parameter.grad = None  # nobody has one: as without hvdlite

    def _rest(self) -> list[Unit]:
        """Who has not travelled in this step. The step is over."""
        left = self._direct.left()
        if len(left) == len(self.flights):  # nobody has been counted
            rest = []
        else:
            self._count(left)
            rest = self._aggregation.rest()
        self._direct.begin()
        return rest

    def _begin(self) -> None:
        """As if no gradient had arrived."""
        self._aggregation.reset()
        self._direct.begin()

    def _land(self) -> None:
        """Waits for everything. Ctrl-C ends the wait, and what is under way stays noted."""
        error: Exception | None = None
        try:
            engine.wait_all(self._direct.natives)
        except Exception as failed:
            error = failed
        for number in self._direct.land():
            error = error or AssertionError(
                f"The gradient of '{self.flights[number].label}' was replaced between backward() and step(). Call "
                "model.zero_grad() after step(), or optimizer.synchronize() before changing gradients."
            )
        while self._others:
            flight = self._others[0]
            try:
                if flight.error is not None:
                    raise flight.error
                if flight.finish is not None:
                    with torch.no_grad():
                        flight.finish()
            except Exception as failed:
                error = error or failed
            flight.finish = flight.error = None
            self._others.popleft()
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
        self._direct.forget()
        for flight in self._others:
            flight.finish = flight.error = None
        self._others.clear()
        self._aggregation.reset()


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
    def hook(parameter: Any) -> None:
        reducer = reference()
        if reducer is not None:
            reducer.arrived(number)

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
