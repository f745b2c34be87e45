"""Random numbers of a step that is done again: they are those of the first time."""

from __future__ import annotations

import ctypes
import random
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np


class Generator(NamedTuple):
    """`state()` returns what `set_state()` takes; neither changes it later."""

    state: Callable[[], Any]
    set_state: Callable[[Any], None]


class _OfNumpy:
    """Calls `get_state()`, which takes 30 us, only if the generator's memory has changed."""

    def __init__(self) -> None:
        self._memory = b""
        self._state: Any = None

    def state(self) -> Any:
        numpys: Any = np.random.get_state.__self__  # type: ignore[attr-defined]
        memory = _memory_of(numpys) + _memory_of(numpys._bit_generator)
        if memory != self._memory:
            self._memory, self._state = memory, np.random.get_state()
        return self._state


def _memory_of(value: Any) -> bytes:
    """All that the object itself has, without its count of references."""
    head = object.__basicsize__
    return ctypes.string_at(id(value) + head, type(value).__basicsize__ - head)


OF_PYTHON = Generator(random.getstate, random.setstate)
OF_NUMPY = Generator(_OfNumpy().state, np.random.set_state)


class RandomStates:
    """Of this rank. Ranks draw different numbers, so no rank takes them from another one."""

    def __init__(self, generators: Sequence[Generator]) -> None:
        self._generators = generators
        self._kept: list[Any] = []
        self._copy: list[Any] = []

    def keep(self) -> None:
        self._kept = [generator.state() for generator in self._generators]

    def put_back(self) -> None:
        self._set(self._kept)

    def save(self) -> None:
        self._copy = [generator.state() for generator in self._generators]

    def restore(self) -> None:
        self._set(self._copy)

    def _set(self, states: list[Any]) -> None:
        if states:
            for generator, state in zip(self._generators, states, strict=True):
                generator.set_state(state)
