"""LARS takes the place of SGD, and LAMB that of Adam: DECIDES which."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from hvdlite.adapter.strategy.choice import Choice


class Place(NamedTuple):
    """`taker` takes the place of an optimizer of one of these kinds, unless one of the `without`
    options is set, which the taker does not have. A class that derives from a kind is another one,
    unless it has the same name, as those that Keras makes for each backend."""

    taker: Any
    kinds: Sequence[type]
    without: Sequence[str]


def taker(
    choice: Choice,
    optimizer: Any,
    places: Mapping[str, Place],
    groups: Sequence[Mapping[str, Any]],
    has_trained: bool,
) -> Any:
    """The class that takes the place of the optimizer, or a ValueError with a sentence. `groups`:
    the optimizer's options."""
    place = places[choice.name]
    name = f"large_batch={choice.name}"
    own = type(optimizer)
    if not any(issubclass(own, kind) and own.__name__ == kind.__name__ for kind in place.kinds):
        kinds = " or ".join(kind.__name__ for kind in place.kinds)
        raise ValueError(
            f"{name} of the strategy takes the place of {kinds}, and the optimizer is "
            f"{own.__name__}: pass {kinds}, or leave large_batch out"
        )
    for option in place.without:
        if any(group.get(option) for group in groups):
            raise ValueError(
                f"{name} of the strategy: {place.taker.__name__} has no {option}, which the "
                "optimizer has. Leave it out"
            )
    if has_trained:
        raise ValueError(
            f"{name} of the strategy takes the place of a new optimizer, and this one has trained "
            "already: pass a new one"
        )
    return place.taker
