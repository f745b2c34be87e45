"""Submits each gradient for an in-place allreduce from its autograd hook."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

from hvdlite.base.by_ctypes import operations


class GradientHooks:
    """As in csrc/bindings/gradient_hooks.cc."""

    def __init__(self, op: int, prescale: float, postscale: float, process_set: Any) -> None:
        self._reduction = op, prescale, postscale
        self._process_set = process_set
        self._names: list[str] = []
        self._permitted: set[int] = set()
        self._submitted: dict[int, None] = {}  # by hooks, in this step
        self._taken = 0
        self._in_flight: list[tuple[int, Any, Any]] = []
        self.handles: list[int] = []

    def add(self, name: str) -> int:
        self._names.append(name)
        return len(self._names) - 1

    def hook(self, number: int, otherwise: Callable[[Any], None]) -> Callable[[Any], None]:
        me = weakref.ref(self)  # a parameter owns its hook and must not own the reducer

        def hvdlite_hook(parameter: Any) -> None:
            hooks = me()
            if hooks is None or not hooks._submit_by_hook(number, parameter):
                otherwise(parameter)

        return hvdlite_hook

    def permit(self, number: int, permitted: bool) -> None:
        (self._permitted.add if permitted else self._permitted.discard)(number)

    def submit(self, number: int, parameter: Any) -> bool:
        try:
            gradient = parameter.grad
            process_set = self._process_set.process_set_id  # None until it is registered
            if not isinstance(process_set, int):
                return False
            op, prescale, postscale = self._reduction
            name = self._names[number]
            call = operations.Call(0, op, process_set, name, prescale, postscale, patient=True)
            call.borrow(gradient, gradient)
            self.handles.append(operations.start(call))
        except Exception:
            return False
        self._in_flight.append((number, parameter, gradient))
        return True

    def _submit_by_hook(self, number: int, parameter: Any) -> bool:
        if number not in self._permitted or number in self._submitted:
            return False
        if not self.submit(number, parameter):
            return False
        self._submitted[number] = None
        return True

    def take_submitted(self) -> list[int]:
        taken = list(self._submitted)[self._taken :]
        self._taken += len(taken)
        return taken

    def begin_step(self) -> None:
        self._submitted.clear()
        self._taken = 0

    def finish(self) -> list[int]:
        in_flight, self._in_flight = self._in_flight, []
        return [
            number for number, parameter, gradient in in_flight if parameter.grad is not gradient
        ]

    def forget(self) -> None:
        self.handles.clear()
        self._in_flight = []
        self.begin_step()
