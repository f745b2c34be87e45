"""What hvdlite.adapter.hooks.reducer knows of a gradient on its way."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

from hvdlite.adapter.compression.methods import Momentum
from hvdlite.adapter.compression.rounds import Journey


class Flight:
    """A gradient, or a group of them, and its operation under way."""

    __slots__ = (
        "directly", "error", "finish", "journey", "label", "momentum", "name", "parameter", "place",
    )  # fmt: skip

    def __init__(self, parameter: Any, scope: str, label: str, place: int = -1) -> None:
        self.parameter = parameter
        self.place = place  # among all parameters of the optimizer
        self.label = label  # for people
        self.name = scope + label
        self.directly = False  # as it is, in place: until that has been refused
        self.momentum: Momentum | None = None  # that it gets on this rank; then it goes as it is
        self.finish: Callable[[], None] | None = None  # of the long way
        self.journey: Journey | None = None  # of a gradient that travels in several rounds
        self.error: Exception | None = None


def arrival(reducer: Any, number: int) -> Callable[[Any], None]:
    """Tells the reducer that a gradient of this number has arrived."""
    # Weak: parameters would keep the optimizer alive for ever.
    reference = weakref.ref(reducer)

    def hook(parameter: Any) -> None:
        living = reference()
        if living is not None:
            living.arrived(number)

    return hook
