"""Functions that are called each time this process has joined a job, or a generation of an elastic
job, by `init()`."""

from __future__ import annotations

from collections.abc import Callable

_functions: list[Callable[[], object]] = []


def each_time(function: Callable[[], object]) -> None:
    """Has it called from now on. It must not be one that talks to other ranks."""
    _functions.append(function)


def call_all() -> None:
    for function in _functions:
        function()
