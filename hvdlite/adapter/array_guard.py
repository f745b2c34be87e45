"""The drift guard of parameters that become arrays of numpy, and for loops of the program's own,
which hand over their parameters in each step."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hvdlite.adapter import names
from hvdlite.adapter.drift_guard import DriftGuard
from hvdlite.core import engine
from hvdlite.core.process_sets import ProcessSet
from hvdlite.job import basics

Array = np.ndarray[Any, Any]


class ArrayReader:
    """See hvdlite.adapter.drift_guard.Reader. `contents`: what a parameter holds now."""

    def __init__(self, contents: Callable[[Any], Any]) -> None:
        self._contents = contents

    def size(self, parameter: Any) -> int:
        return math.prod(parameter.shape)  # of elements, which nearly always have the same size

    def take(self, parameters: Sequence[Any]) -> Callable[[], Sequence[int]]:
        digests = engine.digests([self._array(parameter) for parameter in parameters])
        return lambda: digests

    def exact(self, parameter: Any) -> int:
        values = self._array(parameter)
        unlike_itself = values != values  # noqa: PLR0124  # NaN, whatever the type is
        if np.any(unlike_itself):
            values = np.where(unlike_itself, np.array(np.nan, values.dtype), values)
        return engine.digests([values])[0]

    def _array(self, parameter: Any) -> Array:
        return np.ascontiguousarray(self._contents(parameter))


class _Place:
    """A parameter by its place among those of the latest step."""

    def __init__(self, label: str, number: int, latest: StepGuard) -> None:
        self.label = label
        self._number, self._latest = number, latest

    @property
    def parameter(self) -> Any:
        return self._latest.parameters[self._number]


class StepGuard:
    """Compares what the members of a process set hand over, step for step. Other ranks may call
    it, too. `kind`: a name for the messages."""

    def __init__(self, kind: str, process_set: ProcessSet, contents: Callable[[Any], Any]) -> None:
        self.parameters: Sequence[Any] = []
        self._process_set = process_set
        self._places: list[_Place] = []
        self._structure: Any = None
        self._guard = DriftGuard(
            f"{names.scope()}{kind}.", process_set, self._places, ArrayReader(contents)
        )

    @property
    def compared(self) -> int:
        """How often digests of all members were compared."""
        return self._guard.compared

    def step(
        self, parameters: Sequence[Any], structure: Any, labels: Callable[[], Sequence[str]]
    ) -> None:
        """`labels` are asked for when the structure is another one than before. It changes between
        the same steps on all members."""
        if basics.size() == 1 or not self._process_set.included():
            return
        self.parameters = parameters
        if self._structure is None or structure != self._structure:
            self._structure = structure
            self._places[:] = [_Place(label, i, self) for i, label in enumerate(labels())]
            self._guard.leave_out(())  # what was cut is out of date
        self._guard.compare()
