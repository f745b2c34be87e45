"""Carries a strategy out: by the functions of a framework that a program may call itself."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from hvdlite.adapter.announcing import announce
from hvdlite.adapter.compression import CompressionAdapter
from hvdlite.adapter.strategy.choice import Choice
from hvdlite.adapter.strategy.known import compressor
from hvdlite.adapter.strategy.strategy import Strategy

Function = Callable[..., Any]

#: instead of sufficient factors
NO_LAYERS = (
    "an optimizer has no hold on the layers that have computed the gradients. Leave it out, or "
    "train with hvdlite.torch"
)
#: instead of what optimizers of TensorFlow 1 have not
KERAS_HAS_IT = "take an optimizer of Keras"

# Arguments that are accepted for Horovod's sake.
_WITHOUT_EFFECT = {"name", "device_dense", "device_sparse"}


@dataclass(frozen=True)
class Ways:
    """What a framework has for the parts of a strategy.

    `large_batch` makes the optimizer that takes the place of a program's. `lacking`: by part, what
    to do instead of it. `tells_epochs`: whether optimizers have `.compression`, whose on_epoch() a
    warm-up needs.
    """

    framework: str
    compression: Any
    local: Mapping[str, Function] = field(default_factory=dict)
    large_batch: Callable[[Any, Choice], Any] | None = None
    lacking: Mapping[str, str] = field(default_factory=dict)
    tells_epochs: bool = True

    def applied(self, distribute: Function, arguments: Mapping[str, Any]) -> Any:
        """What distribute(**arguments) gives by the strategy among the arguments."""
        given = dict(arguments)
        strategy, optimizer = given.pop("strategy"), given.pop("optimizer")
        if not isinstance(strategy, Strategy):
            raise TypeError(
                f"strategy={strategy!r} is no hvd.Strategy: make one with hvd.Strategy(...), "
                "hvd.Strategy.from_dict() or hvd.Strategy.from_yaml()"
            )
        self._refuse_lacking(strategy)
        asked = self._arguments(strategy)
        changed = _changed(distribute, given)
        for name in asked.keys() & changed:
            raise ValueError(
                f"{name} is in the strategy, and {name}= was passed as well: leave one of them out"
            )
        if strategy.large_batch is not None and self.large_batch is not None:
            optimizer = self.large_batch(optimizer, strategy.large_batch)
        if strategy.local is None:
            result = distribute(optimizer, **{**given, **asked})
        else:
            result = self._with_local_steps(strategy.local, optimizer, given, changed)
        announce(f"hvd.Strategy: {strategy.describe()}", given["process_set"])
        return result

    def _refuse_lacking(self, strategy: Strategy) -> None:
        for part, instead in self.lacking.items():
            if getattr(strategy, part) != getattr(Strategy, part):
                raise ValueError(
                    f"{part} of the strategy is not possible in {self.framework}: {instead}"
                )

    def _arguments(self, strategy: Strategy) -> dict[str, Any]:
        """Those that the strategy stands for."""
        asked: dict[str, Any] = {}
        if strategy.compression is not None:
            made = compressor(strategy.compression, self.compression)
            if not self.tells_epochs and "warmup_epochs" in getattr(made, "changes", str)():
                raise ValueError(
                    f"compression.warmup_epochs of the strategy is not possible in "
                    f"{self.framework}: the program has to tell the compression each epoch. Make "
                    "one with hvd.Compression, pass it as compression=, and call its on_epoch()"
                )
            asked["compression"] = made
        if strategy.sufficient_factors:
            asked["sufficient_factors"] = strategy.sufficient_factors
        if strategy.backward_passes_per_step > 1:
            asked["backward_passes_per_step"] = strategy.backward_passes_per_step
        return asked

    def _with_local_steps(
        self, local: Choice, optimizer: Any, given: Mapping[str, Any], changed: Mapping[str, Any]
    ) -> Any:
        function = self.local[local.name]
        takes = inspect.signature(function).parameters
        for option in local.changed():
            if option not in takes:
                raise ValueError(
                    f"local.{option} of the strategy is not possible in {self.framework}: "
                    f"{function.__name__} has no {option} there. Leave it out"
                )
        for name, value in changed.items():
            if name not in takes and name not in _WITHOUT_EFFECT:
                raise ValueError(
                    f"{name}={value!r} is not possible with local={local} of the strategy: local "
                    "steps send weights, and this is about gradients. Leave it out"
                )
        options = {name: value for name, value in local.options if name in takes}
        return function(optimizer, **options, **{k: v for k, v in given.items() if k in takes})


def _changed(function: Function, given: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments that are not as by default."""
    parameters = inspect.signature(function).parameters
    changed = {name: value for name, value in given.items() if value != parameters[name].default}
    if "compression" in changed and CompressionAdapter(changed["compression"]).is_none:
        del changed["compression"]  # each framework has a hvd.Compression.none of its own
    return changed
