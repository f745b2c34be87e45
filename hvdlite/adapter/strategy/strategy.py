"""hvd.Strategy: a description, which serves any number of optimizers of any framework."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from hvdlite.adapter import factors, step
from hvdlite.adapter.factors import Mode
from hvdlite.adapter.strategy import combinations, words, yaml_text
from hvdlite.adapter.strategy.choice import Choice
from hvdlite.adapter.strategy.known import KNOWN
from hvdlite.adapter.strategy.reading import check_name, chosen, value_of

_PASSES = "backward_passes_per_step"


@dataclass(frozen=True, repr=False)
class Strategy:
    """Everything that a program asks of its communication, for
    hvd.DistributedOptimizer(strategy=...).

        hvd.Strategy(compression={"name": "dgc", "density": 0.01})
        hvd.Strategy(local={"every": 16, "start": 1000})
        hvd.Strategy.from_yaml("strategy.yml")

    `compression`: a name of hvd.Compression, alone or with options. `local`: the options of
    hvd.LocalSGD; or of hvd.DiLoCo, with "name": "diloco". `large_batch`: "lars" or "lamb", which
    takes the place of the optimizer. `sufficient_factors` and `backward_passes_per_step` are those
    of hvd.DistributedOptimizer(). See docs/guides/strategy.md.
    """

    compression: Any = None
    local: Any = None
    large_batch: Any = None
    sufficient_factors: Mode = None
    backward_passes_per_step: int = 1

    def __post_init__(self) -> None:
        for part in KNOWN:
            given = getattr(self, part)
            choice = None if given in (None, "none") else chosen(part, given)
            object.__setattr__(self, part, choice)
        mode = factors.settled(self.sufficient_factors) or None
        object.__setattr__(self, "sufficient_factors", mode)
        step.check_passes(value_of(_PASSES, "int", self.backward_passes_per_step))
        combinations.check(**self._parts())

    @classmethod
    def from_dict(cls, description: Mapping[str, Any]) -> Strategy:
        """From the arguments in a mapping."""
        if not isinstance(description, Mapping):
            raise ValueError(
                f"expected a mapping such as {{'compression': 'int8'}}, found {description!r}"
            )
        for name in description:
            check_name("a strategy has no part", name, [field.name for field in fields(cls)])
        return cls(**description)

    @classmethod
    def from_yaml(cls, path_or_text: str | os.PathLike[str]) -> Strategy:
        """From a YAML file, or from its text. It needs PyYAML."""
        content, source = yaml_text.load(path_or_text)
        try:
            return cls.from_dict({} if content is None else content)
        except ValueError as error:
            raise ValueError(f"{source}: {error}") from None

    def to_dict(self) -> dict[str, Any]:
        """What from_dict() takes and YAML can hold: with all options, also those that were not
        given."""
        return {
            name: value.plain() if isinstance(value, Choice) else value
            for name, value in self._parts().items()
        }

    def describe(self) -> str:
        """The strategy in plain words."""
        return words.described(**self._parts())

    def _parts(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def __repr__(self) -> str:
        given = [
            f"{field.name}={getattr(self, field.name)!r}"
            for field in fields(self)
            if getattr(self, field.name) != field.default
        ]
        return f"Strategy({', '.join(given)})"
