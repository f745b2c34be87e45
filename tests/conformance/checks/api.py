"""What a check needs of a framework, so that it is written once: tensors, the module `hvd`, the
ways to call an operation, and training (runs.py).

Each suite brings its Api (`checks/*_api.py`); `api`, `hvd` and `Run` below are those of the job.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
from tier import some_pairs

from checks import APIS, runs
from checks.here import DTYPES, FLOATS


@dataclass(frozen=True)
class Way:
    """One way to run an operation on several tensors: `run(tensors, **arguments)` returns as many
    results."""

    label: str
    run: Callable[..., Sequence[Any]]
    in_place: bool = False
    grouped: bool = False
    compresses: bool = False  # takes compression=
    traced: bool = False  # a program is traced first, which takes its time
    # the program is compiled for shapes, so every rank must have equally many rows
    fixed: bool = False


class Api:
    """A framework with hvdlite's module for it. A mode is a way to run a function of tensors."""

    hvd: Any
    Run: type[runs.Run]  # trains two weights by given gradients
    modes: tuple[str, ...] = ("eager",)
    fixed_modes: tuple[str, ...] = ()  # the modes that compile for shapes
    fixed_splits = False  # alltoall takes splits there, too, if they are equal
    handles = False  # there are asynchronous forms and forms in place
    dtypes: tuple[str, ...] = DTYPES
    gradient_dtypes: tuple[str, ...] = FLOATS
    scatters: tuple[str, ...] = ("Average", "Sum")  # the reductions of reducescatter
    no_tensors: tuple[Any, ...] = ()  # each is a TypeError, which says tensor_word
    tensor_word = ""
    dtype_error: tuple[type[Exception], str] = (ValueError, "is not supported")

    def kinds(self, shapes: Sequence[tuple[int, ...]]) -> list[tuple[str, tuple[int, ...]]]:
        """Every dtype with every shape; of these pairs what the tier takes."""
        return some_pairs(self.dtypes, shapes)

    def tensor(self, array: np.ndarray) -> Any:
        """A copy of the array."""
        raise NotImplementedError

    def array(self, tensor: Any) -> np.ndarray:
        """Of a result, whose type is checked."""
        raise NotImplementedError

    def ways(self, operation: str) -> Iterator[Way]:
        """All ways to run an operation on tensors of which none needs another's result."""
        raise NotImplementedError

    def run(self, mode: str, function: Callable[..., Any], *tensors: Any) -> Any:
        return function(*tensors)

    def pull(self, function: Callable[[Any], Any], x: Any, dy: Any) -> Any:
        """The gradient of x, given that of function(x). Runs within run()."""
        raise NotImplementedError

    def splits(self, rows: list[int]) -> list[Any]:
        """All forms that alltoall takes for its splits."""
        return [rows]

    def wrong_dtypes(self) -> list[Any]:
        """Tensors that cannot be reduced, which dtype_error says."""
        raise NotImplementedError

    def wrong_splits(self, size: int) -> list[Any]:
        """Splits of `size` ranks that are wrong in this framework alone."""
        return []

    def invalid(self, mode: str) -> type[Exception]:
        """The exception by which a rank hears of its own wrong argument."""
        return ValueError

    def mismatch(self, mode: str) -> type[Exception]:
        """The exception by which a rank hears that ranks disagree."""
        return self.hvd.MismatchError  # type: ignore[no-any-return]

    def ones(self, shape: int | tuple[int, ...], dtype: str = "float32") -> Any:
        return self.full(shape, 1, dtype)

    def full(self, shape: int | tuple[int, ...], value: float, dtype: str = "float32") -> Any:
        return self.tensor(np.full(shape, value, dtype))


def each_of(one: Callable[..., Any]) -> Callable[..., list[Any]]:
    return lambda tensors, **how: [one(t, name=f"each.{i}", **how) for i, t in enumerate(tensors)]


class HandleApi(Api):
    """A framework whose operations have asynchronous forms, which return handles, and forms in
    place."""

    handles = True

    def ways(self, operation: str) -> Iterator[Way]:
        compresses = hasattr(self.hvd, "Compression") and operation in (
            "allreduce",
            "reducescatter",
        )
        forms = (
            ("plain", "{}", each_of),
            ("async", "{}_async", self._each_async),
            ("in place", "{}_", each_of),
            ("async in place", "{}_async_", self._each_async),
            ("grouped", "grouped_{}", lambda group: group),
            ("grouped async", "grouped_{}_async", self._together_async),
            ("grouped in place", "grouped_{}_", lambda group: group),
            ("grouped async in place", "grouped_{}_async_", self._together_async),
        )
        for label, name, form in forms:
            if function := getattr(self.hvd, name.format(operation), None):
                in_place, grouped = "in place" in label, "grouped" in label
                takes_compression = compresses and label in ("plain", "grouped")
                yield Way(label, form(function), in_place, grouped, takes_compression)

    def _each_async(self, start: Callable[..., int]) -> Callable[..., Any]:
        def run(tensors: Sequence[Any], **how: Any) -> list[Any]:
            handles = [start(t, name=f"each.{i}", **how) for i, t in enumerate(tensors)]
            results = [self.hvd.synchronize(handle) for handle in reversed(handles)]
            return results[::-1]

        return run

    def _together_async(self, start: Callable[..., int]) -> Callable[..., Any]:
        return lambda tensors, **how: self.hvd.synchronize(start(tensors, name="together", **how))


class TracingApi(Api):
    """A framework that runs operations at once and traces functions into programs."""

    def together(self, operation: str) -> Callable[..., Any] | None:
        """The operation on a list of tensors."""
        return getattr(self.hvd, f"grouped_{operation}", None)

    def ways(self, operation: str) -> Iterator[Way]:
        one, group = getattr(self.hvd, operation), self.together(operation)
        compresses = operation in ("allreduce", "reducescatter")
        for mode in self.modes:
            how = {
                "compresses": compresses,
                "traced": mode != self.modes[0],
                "fixed": mode in self.fixed_modes,
            }
            yield Way(mode, self._in(mode, each_of(one)), **how)
            if group:
                yield Way(f"grouped {mode}", self._in(mode, group), grouped=True, **how)

    def _in(self, mode: str, function: Callable[..., Any]) -> Callable[..., Any]:
        return lambda tensors, **how: self.run(
            mode, lambda *given: function(list(given), **how), *tensors
        )


_chosen: list[Api] = []


def choose(suite: str) -> None:
    """The worker says which suite it runs. tf_keras has no Api."""
    if suite in APIS:
        _chosen.append(import_module(f"checks.{APIS[suite]}").API)


class _OfTheJob:
    def __init__(self, pick: Callable[[Api], Any]) -> None:
        self._pick = pick

    def __getattr__(self, name: str) -> Any:
        return getattr(self._pick(_chosen[0]), name)

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        return self._pick(_chosen[0])(*arguments, **options)


api: Any = _OfTheJob(lambda chosen: chosen)
hvd: Any = _OfTheJob(lambda chosen: chosen.hvd)
Run: Any = _OfTheJob(lambda chosen: chosen.Run)
