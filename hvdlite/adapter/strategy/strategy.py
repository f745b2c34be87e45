"""hvd.Strategy: a description, which serves any number of optimizers of any framework."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from hvdlite.adapter import step
from hvdlite.adapter.announcing import announce
from hvdlite.adapter.compression import CompressionAdapter
from hvdlite.adapter.local import factors
from hvdlite.adapter.local.factors import Mode
from hvdlite.adapter.strategy.options import KNOWN, Choice, check_name, chosen, compressor, value_of
from hvdlite.adapter.strategy.support import Support
from hvdlite.base.ops import Average

_PASSES = "backward_passes_per_step"
#: by default, in all frameworks that have them: the arguments of DistributedOptimizer() about
#: gradients
_DEFAULTS = {
    _PASSES: 1, "average_aggregated_gradients": False, "gradient_predivide_factor": 1.0,
    "groups": None, "num_groups": 0, "op": Average, "scale_local_gradients": True,
    "sparse_as_dense": False, "sufficient_factors": None, "use_locking": False,
}  # fmt: skip
#: those that hvd.LocalSGD and hvd.DiLoCo have as well
_OF_WEIGHTS = ("named_parameters", "process_set")


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
        mode = factors.checked(self.sufficient_factors) or None
        object.__setattr__(self, "sufficient_factors", mode)
        step.check_passes(value_of(_PASSES, "int", self.backward_passes_per_step))
        _check_combination(**self._parts())

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
        content, source = _load(path_or_text)
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

    def arguments(self, framework: Support) -> dict[str, Any]:
        """The arguments of the framework's DistributedOptimizer() that this strategy stands for. A
        ValueError if the framework lacks a part."""
        for part, instead in framework.lacking.items():
            if getattr(self, part) != getattr(Strategy, part):
                raise ValueError(
                    f"{part} of the strategy is not possible in {framework.framework}: {instead}"
                )
        asked: dict[str, Any] = {}
        if self.compression is not None:
            made = compressor(self.compression, framework.compression)
            if not framework.tells_epochs and "warmup_epochs" in getattr(made, "changes", str)():
                raise ValueError(
                    "compression.warmup_epochs of the strategy is not possible in "
                    f"{framework.framework}: the program has to tell the compression each epoch. "
                    "Make one with hvd.Compression, pass it as compression=, and call its "
                    "on_epoch()"
                )
            asked["compression"] = made
        if self.sufficient_factors:
            asked["sufficient_factors"] = self.sufficient_factors
        if self.backward_passes_per_step > 1:
            asked[_PASSES] = self.backward_passes_per_step
        return asked

    def describe(self) -> str:
        """The strategy in plain words."""
        return _described(**self._parts())

    def _parts(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def __repr__(self) -> str:
        given = [
            f"{field.name}={getattr(self, field.name)!r}"
            for field in fields(self)
            if getattr(self, field.name) != field.default
        ]
        return f"Strategy({', '.join(given)})"


# ---- DistributedOptimizer(strategy=...)


def apply(
    strategy: Any, framework: Support, distribute: Callable[..., Any], optimizer: Any, **given: Any
) -> Any:
    """What distribute(optimizer, ...) gives by the strategy. `given`: its other arguments, as the
    program has passed them."""
    if not isinstance(strategy, Strategy):
        raise TypeError(
            f"strategy={strategy!r} is no hvd.Strategy: make one with hvd.Strategy(...), "
            "hvd.Strategy.from_dict() or hvd.Strategy.from_yaml()"
        )
    asked = strategy.arguments(framework)
    changed = _changed(given)
    for name in asked.keys() & changed:
        raise ValueError(
            f"{name} is in the strategy, and {name}= was passed as well: leave one of them out"
        )
    if strategy.large_batch is not None and framework.large_batch is not None:
        optimizer = framework.large_batch(optimizer, strategy.large_batch)
    if strategy.local is None:
        result = distribute(optimizer, **{**given, **asked})
    else:
        result = _with_local_steps(strategy.local, framework, optimizer, given, changed)
    announce(f"hvd.Strategy: {strategy.describe()}", given["process_set"])
    return result


def _with_local_steps(
    local: Choice, framework: Support, optimizer: Any, given: Mapping[str, Any],
    changed: Mapping[str, Any],
) -> Any:  # fmt: skip
    function = framework.local[local.name]
    lacking = {option for option, _ in local.options
               if f"{local.name}.{option}" in framework.lacking_options}  # fmt: skip
    for option in local.changed():
        if option in lacking:
            raise ValueError(
                f"local.{option} of the strategy is not possible in {framework.framework}: "
                f"{function.__name__} has no {option} there. Leave it out"
            )
    for name, value in changed.items():
        raise ValueError(
            f"{name}={value!r} is not possible with local={local} of the strategy: local steps "
            "send weights, and this is about gradients. Leave it out"
        )
    options = {option: value for option, value in local.options if option not in lacking}
    return function(optimizer, **options, **{n: given[n] for n in _OF_WEIGHTS if n in given})


def _changed(given: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments about gradients that are not as by default."""
    return {
        name: value
        for name, value in given.items()
        if (name in _DEFAULTS and value != _DEFAULTS[name])
        # each framework has a hvd.Compression.none of its own
        or (name == "compression" and not CompressionAdapter(value).is_none)
    }


# ---- which parts do not go together


def _check_combination(
    *,
    compression: Choice | None,
    local: Choice | None,
    large_batch: Choice | None,
    sufficient_factors: Mode,
    backward_passes_per_step: int,
) -> None:
    """A ValueError with the reason if two parts do not go together."""
    for beside, why_not in (
        (compression and f"compression={compression}",
         "compressions are for gradients, and local steps send weights. Leave one of them out; a "
         "larger local.every sends less, too"),
        (sufficient_factors and f"sufficient_factors={sufficient_factors!r}",
         "factors are a way of gradients, and local steps send weights. Leave one of them out"),
        (large_batch and f"large_batch={large_batch}",
         "its norms are those of the gradient of all ranks, and a local step has the gradient of "
         "one rank's small batch. Leave one of them out"),
        (backward_passes_per_step > 1 and f"backward_passes_per_step={backward_passes_per_step}",
         "local steps send nothing after a backward pass, so adding passes up saves nothing. "
         "Multiply local.every instead"),
    ):  # fmt: skip
        if local and beside:
            raise ValueError(f"local={local} is not possible with {beside}: {why_not}.")
    if sufficient_factors:
        sent = "" if compression is None else str(compressor(compression))
        factors.check(sent, None, False, backward_passes_per_step)


# ---- YAML


# 1e-3, which YAML 1.1 reads as a text
_FLOAT = re.compile(r"[-+]?\d+[eE][-+]?\d+")


def _load(path_or_text: str | os.PathLike[str]) -> tuple[Any, str]:
    """What the YAML says, and where it is. A string with a line break or with `: ` is the text."""
    given = os.fspath(path_or_text)
    is_text = isinstance(path_or_text, str) and ("\n" in given or ": " in given)
    text, source = (given, "the text") if is_text else (Path(given).read_text(), given)
    try:
        import yaml
    except ImportError:
        raise ImportError("hvd.Strategy.from_yaml needs PyYAML: pip install pyyaml") from None

    class Loader(yaml.SafeLoader):  # type: ignore[misc]  # a resolver belongs to a class
        pass

    Loader.add_implicit_resolver("tag:yaml.org,2002:float", _FLOAT, list("-+0123456789"))
    try:
        return yaml.load(text, Loader), source  # noqa: S506  # a SafeLoader
    except yaml.YAMLError as error:
        raise ValueError(f"{source} is not YAML: {' '.join(str(error).split())}") from None


# ---- in plain words

_FACTORS = {
    True: "Linear layers send the factors of their gradients.",
    "auto": "Linear layers send the factors of their gradients where these are fewer bytes.",
}
_LARGE_BATCH = {"lars": "LARS takes the place of SGD", "lamb": "LAMB takes the place of Adam"}


def _described(
    *,
    compression: Choice | None,
    local: Choice | None,
    large_batch: Choice | None,
    sufficient_factors: Mode,
    backward_passes_per_step: int,
) -> str:
    """Some sentences."""
    if local is not None:
        return " ".join(_LOCAL[local.name](local))
    passes = backward_passes_per_step
    added_up = f", added up over {passes} backward passes" if passes > 1 else ""
    said = [f"Each step reduces the gradients of all ranks{added_up}."]
    if compression is not None:
        said.append(f"They travel by {_compressor(compression)}.")
    if sufficient_factors:
        said.append(_FACTORS[sufficient_factors])
    if large_batch is not None:
        trust = f" with trust={large_batch['trust']:g}" if large_batch.name == "lars" else ""
        said.append(f"{_LARGE_BATCH[large_batch.name]}{trust}.")
    return " ".join(said)


def _compressor(choice: Choice) -> str:
    return choice.name if choice.name in ("fp16", "bf16") else str(compressor(choice))


def _interval(local: Choice) -> str:
    every = local["every"]
    return f"{every} steps" if isinstance(every, int) else str(every)


def _local_sgd(local: Choice) -> list[str]:
    said = [f"Ranks make steps of their own and average their weights every {_interval(local)}."]
    if local["start"]:
        said.append(f"The first {local['start']} steps are synchronous.")
    if local["adaptive"]:
        said.append("The interval shrinks with the loss.")
    if local["momentum"] == "average":
        said.append("Momentum is averaged, too.")
    return said


def _diloco(local: Choice) -> list[str]:
    said = [f"Ranks make steps of their own; every {_interval(local)}, {local['outer']} makes a "
            "step with the average of what they have changed."]  # fmt: skip
    if local["fragments"] > 1:
        said.append(f"The model travels in {local['fragments']} fragments.")
    if local["overlap"]:
        said.append(f"An average is applied {local['overlap']} steps after it was started.")
    if local["momentum"] == "reset":
        said.append("Momentum begins anew behind each average.")
    return said


_LOCAL = {"local_sgd": _local_sgd, "diloco": _diloco}
