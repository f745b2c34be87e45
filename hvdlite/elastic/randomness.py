"""Random numbers of a step that is done again: they are those of the first time."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np


class Generator(NamedTuple):
    """`state()` returns what `set_state()` takes; neither changes it later."""

    state: Callable[[], Any]
    set_state: Callable[[Any], None]


OF_PYTHON = Generator(random.getstate, random.setstate)
OF_NUMPY = Generator(np.random.get_state, np.random.set_state)


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
