"""What a framework has for the parts of a strategy."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from hvdlite.adapter.strategy.options import Choice

#: instead of sufficient factors
NO_LAYERS = (
    "an optimizer has no hold on the layers that have computed the gradients. Leave it out, or "
    "train with hvdlite.torch"
)
#: instead of what optimizers of TensorFlow 1 have not
KERAS_HAS_IT = "take an optimizer of Keras"
#: options of hvd.DiLoCo that torch's has alone
OF_TORCH = frozenset({"diloco.overlap", "diloco.momentum"})


@dataclass(frozen=True)
class Support:
    """`local`: hvd.LocalSGD and hvd.DiLoCo, by a choice's name, without the options that
    `lacking_options` names. `large_batch` makes the optimizer that takes the place of a program's.
    `lacking`: by part, what to do instead of it. `tells_epochs`: whether optimizers have
    `.compression`, whose on_epoch() a warm-up needs.
    """

    framework: str
    compression: Any
    local: Mapping[str, Callable[..., Any]] = field(default_factory=dict)
    large_batch: Callable[[Any, Choice], Any] | None = None
    lacking: Mapping[str, str] = field(default_factory=dict)
    lacking_options: frozenset[str] = frozenset()
    tells_epochs: bool = True


# ---- LARS takes the place of SGD, and LAMB that of Adam


class Replacement(NamedTuple):
    """`taker` takes the place of an optimizer of one of these kinds, unless one of the `without`
    options is set, which the taker does not have. A class that derives from a kind is another one,
    unless it has the same name, as those that Keras makes for each backend."""

    taker: Any
    kinds: Sequence[type]
    without: Sequence[str]


def chosen_replacement(
    choice: Choice,
    optimizer: Any,
    replacements: Mapping[str, Replacement],
    groups: Sequence[Mapping[str, Any]],
    has_trained: bool,
) -> Any:
    """The class that takes the place of the optimizer, or a ValueError with a sentence. `groups`:
    the optimizer's options."""
    found = replacements[choice.name]
    name = f"large_batch={choice.name}"
    own = type(optimizer)
    if not any(issubclass(own, kind) and own.__name__ == kind.__name__ for kind in found.kinds):
        kinds = " or ".join(kind.__name__ for kind in found.kinds)
        raise ValueError(
            f"{name} of the strategy takes the place of {kinds}, and the optimizer is "
            f"{own.__name__}: pass {kinds}, or leave large_batch out"
        )
    for option in found.without:
        if any(group.get(option) for group in groups):
            raise ValueError(
                f"{name} of the strategy: {found.taker.__name__} has no {option}, which the "
                "optimizer has. Leave it out"
            )
    if has_trained:
        raise ValueError(
            f"{name} of the strategy takes the place of a new optimizer, and this one has trained "
            "already: pass a new one"
        )
    return found.taker
