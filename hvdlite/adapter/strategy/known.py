"""What may be chosen in each part of a strategy. The options of a way, their types and their
defaults are the parameters of the function that stands for it here; calling the function checks
their values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from hvdlite.adapter import local_steps
from hvdlite.adapter.compression.choices import METHODS, choices
from hvdlite.adapter.local_steps import Plan
from hvdlite.adapter.outer import Outer, OuterSGD
from hvdlite.adapter.strategy.choice import Choice

Known = Mapping[str, Callable[..., Any]]


def _no_algebra() -> Any:
    raise AssertionError("these compressions only check their options")


#: hvd.Compression of no framework
COMPRESSION: Any = choices(None, "float16", "bfloat16", _no_algebra)  # type: ignore[arg-type]


def local_sgd(every: int | str, start: int = 0, momentum: str = "local",
              adaptive: bool = False) -> Plan:  # fmt: skip
    """hvd.LocalSGD, without an optimizer."""
    local_steps.check_momentum(momentum, "local", "average")
    return local_steps.planned(every, start, adaptive)


def diloco(outer: Outer = OuterSGD(), every: int | str = 500, fragments: int = 1,  # noqa: B008
           overlap: int = 0, momentum: str = "local") -> Plan:  # fmt: skip
    """hvd.DiLoCo, without an optimizer."""
    del outer
    local_steps.check_momentum(momentum, "local", "reset")
    return local_steps.planned(every, fragments=fragments, overlap=overlap, weights_only=True)


def lars(trust: float = 0.001) -> None:
    """hvd.LARS. Its other options are those of the optimizer that it takes the place of."""
    if trust <= 0:
        raise ValueError(f"trust={trust!r} is not possible: it must be above 0")


def lamb() -> None:
    """hvd.LAMB, likewise."""


def _cast() -> None:
    """hvd.Compression.fp16 or bf16, which have no options."""


#: by part, then by name
KNOWN: Mapping[str, Known] = {
    "compression": {
        "fp16": _cast,
        "bf16": _cast,
        **{name: getattr(COMPRESSION, name) for name in METHODS},
    },
    "local": {"local_sgd": local_sgd, "diloco": diloco},
    "large_batch": {"lars": lars, "lamb": lamb},
}
#: what a mapping without a name means
UNNAMED = {"local": "local_sgd"}


def called(choice: Choice, function: Callable[..., Any], compression: Any = COMPRESSION) -> Any:
    """function() with the options of the choice. `compression`: the hvd.Compression that has the
    candidates of `auto`."""
    options = choice.changed()
    if options.get("candidates") is not None:
        options["candidates"] = [compressor(each, compression) for each in options["candidates"]]
    return function(**options)


def compressor(choice: Choice, compression: Any = COMPRESSION) -> Any:
    """The compressor of this hvd.Compression that the choice names."""
    found = getattr(compression, choice.name)
    return called(choice, found, compression) if choice.name in METHODS else found
