"""The drift guard of parameters that become arrays of numpy, and for loops of the program's own,
which hand over their parameters in each step."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hvdlite.adapter import names
from hvdlite.adapter.agreement.drift_guard import LOOKED_AT, SAMPLE, DriftGuard, Look, Taken
from hvdlite.core import engine
from hvdlite.core.process_sets import ProcessSet, global_process_set
from hvdlite.job import basics

Array = np.ndarray[Any, Any]


class ArrayReader:
    """See hvdlite.adapter.agreement.drift_guard.Reader. `contents`: what a parameter holds now."""

    def __init__(self, contents: Callable[[Any], Any]) -> None:
        self._contents = contents

    def size(self, parameter: Any) -> int:
        return math.prod(parameter.shape)  # of elements, which nearly always have the same size

    def take(self, parameters: Sequence[Any]) -> Callable[[], Taken]:
        arrays = [self._array(parameter) for parameter in parameters]
        is_finite = all(map(_is_finite, arrays[-LOOKED_AT:])) if arrays else None
        taken = Taken(engine.digests(arrays), is_finite)
        return lambda: taken

    def is_finite(self, parameter: Any) -> bool:
        return _is_finite(self._array(parameter))

    def observe(self, parameters: Sequence[Any]) -> Callable[[], Look | None]:
        """Nothing: see DriftGuard.see()."""
        return lambda: None

    def exact(self, parameter: Any) -> int:
        values = self._array(parameter)
        unlike_itself = values != values  # noqa: PLR0124  # NaN, whatever the type is
        if np.any(unlike_itself):
            values = np.where(unlike_itself, np.array(np.nan, values.dtype), values)
        return engine.digests([values])[0]

    def _array(self, parameter: Any) -> Array:
        return np.ascontiguousarray(self._contents(parameter))


def _is_finite(array: Array) -> bool:
    return bool(np.isfinite(array.reshape(-1)[:SAMPLE]).all())


class _Place:
    """A parameter by its place among those of the latest step."""

    def __init__(self, label: str, number: int, latest: StepGuard) -> None:
        self.label = label
        self._number, self._latest = number, latest

    @property
    def parameter(self) -> Any:
        return self._latest.parameters[self._number]


class StepGuard(ABC):
    """Whether the parameters of all ranks stay the same: see docs/guides/troubleshooting.md.

        guard = hvd.DriftGuard()
        for batch in data:
            params, state = train_step(params, state, batch)
            guard.compare(params)

    All members of `process_set` call compare() equally often. Most calls read none of the
    parameters, and none reads all. This is the class of each framework's DriftGuard.
    """

    def __init__(self, process_set: ProcessSet = global_process_set) -> None:
        self.parameters: Sequence[Any] = []
        self._process_set = process_set
        self._places: list[_Place] = []
        self._structure: Any = None
        name = f"{names.scope()}steps."
        self._guard = DriftGuard(name, process_set, self._places, ArrayReader(self.contents))

    @abstractmethod
    def contents(self, parameter: Any) -> Any:
        """What becomes an array of numpy."""

    @abstractmethod
    def flat(self, parameters: Any) -> tuple[Sequence[Any], Any]:
        """All parameters, and something that is equal as long as they are the same ones."""

    @abstractmethod
    def labels(self, parameters: Any) -> Sequence[str]:
        """Their names for people."""

    @abstractmethod
    def is_recorded(self) -> bool:
        """Whether the framework records what the caller does."""

    @property
    def compared(self) -> int:
        """How often parts of the parameters were compared."""
        return self._guard.compared

    def compare(self, parameters: Any, loss: Any = None) -> None:
        """Compares a part of the parameters in some of the calls. Raises MismatchError on all ranks
        if one differs and HVDLITE_DRIFT=error.

        With this rank's `loss` of the step, which is read in the next call, the guard can say on
        which rank numbers were not finite first.
        """
        if self.is_recorded():
            raise RuntimeError(
                "DriftGuard.compare() was called in a function that is being compiled "
                "(tf.function, jax.jit): call it after the function, in the loop over the batches"
            )
        if basics.size() == 1 or not self._process_set.included():
            return
        self.parameters, structure = self.flat(parameters)
        if self._structure is None or structure != self._structure:
            self._structure = structure
            labels = enumerate(self.labels(parameters))
            self._places[:] = [_Place(label, number, self) for number, label in labels]
            self._guard.leave_out(())  # what was cut is out of date
        if loss is not None:
            self._guard.see(lambda: bool(np.isfinite(np.asarray(self.contents(loss))).all()))
        self._guard.compare()
