"""The promises of hvdlite, one function each, for `worker.py` to try on every rank.

A check is a function of a Here, named as the fact that it establishes; it fails by raising. All
ranks of a job run the same checks in the same order. What is promised for every framework is one
check over an Api (api.py): modules without a framework in their names; a framework's own modules
have what it alone has. Importing a module of checks imports its framework; pytest lists them
without (listing.py).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

# The module that has the Api of a suite.
APIS = {"": "numpy_api", "torch": "torch_api", "tensorflow": "tensorflow_api", "jax": "jax_api",
        "keras": "keras_api"}  # fmt: skip

# The tag of checks that belong to every configuration of their suite, whatever else it is made of.
ALWAYS = "always"
# The tag of checks that take the processor for seconds: `quick` and `commit` take them by turns.
COSTLY = "costly"
# In the environment of a configuration whose ranks call the core through ctypes.
BY_CTYPES = "TEST_BY_CTYPES"

# worker.py runs one suite: arrays of numpy, or an adapter. Its modules stand in the order in which
# a job runs them: what is simple first, what ends and restarts the engine last.
_SUITES = """
: basics collectives allreduce others barrier groups names_and_handles arguments dlpack mismatch
  determinism objects process_sets named_sets outputs codecs join stress lifecycle ways
torch: collectives torch_tensors torch_outputs gradients torch_gradients names_and_handles arguments
  mismatch join objects torch_functions torch_equivalence torch_compression compressors momenta
  torch_methods torch_amp torch_absent torch_drift torch_misuse torch_life local_steps large_batches
  torch_strategies torch_optimizers torch_factors by_strategy torch_by_strategy torch_batch_norm
  torch_compiled torch_ways
tensorflow: collectives tensorflow_tensors gradients arguments programs tensorflow_compiled objects
  tensorflow_training compressors tensorflow_methods tensorflow_by_strategy tensorflow_drift
  tensorflow_batch_norm tensorflow_ways
keras: keras_data keras_training compressors momenta keras_methods keras_optimizer keras_files
  keras_callbacks keras_drift local_steps large_batches keras_strategies keras_matrix by_strategy
  keras_by_strategy keras_ways
jax: collectives jax_trees gradients jax_gradients arguments jax_arguments programs jax_compiled
  objects jax_functions jax_training compressors momenta jax_methods local_steps large_batches
  jax_strategies jax_matrix by_strategy jax_by_strategy jax_drift jax_ways
tf_keras: keras_data keras_training keras_optimizer keras_files keras_callbacks keras_drift
  keras_legacy tensorflow_batch_norm keras_ways
"""
SUITES = {
    name: tuple(modules.split())
    for name, _, modules in (
        line.partition(":") for line in _SUITES.replace("\n ", "").strip().split("\n")
    )
}


@dataclass(frozen=True)
class Listed:
    name: str  # module.function[parameter]
    min_ranks: int = 1
    seconds: float = 10.0  # longer is a hang
    tags: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Check(Listed):
    run: Callable[..., None] = print
    arguments: dict[str, Any] = field(default_factory=dict)


class Skipped(Exception):
    """What a check is about does not exist here, on no rank. Says why."""


def needs(present: object, what: str) -> None:
    """At the beginning of a check, for what older versions of a framework lack."""
    if not present:
        raise Skipped(f"needs {what}")


_found: list[Check] = []


def check(
    *, min_ranks: int = 1, seconds: float = 10.0, tags: Sequence[str] = (), **each: Sequence[Any]
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Declares a check; `dtype=DTYPES` makes one of it for each dtype."""

    def add(function: Callable[..., None]) -> Callable[..., None]:
        base = f"{function.__module__.rpartition('.')[2]}.{function.__name__}"
        for name, arguments in cases(base, each):
            _found.append(Check(name, min_ranks, seconds, frozenset(tags), function, arguments))
        return function

    return add


def cases(base: str, each: Mapping[str, Sequence[Any]]) -> list[tuple[str, dict[str, Any]]]:
    """The names of a declared check, and the arguments of each."""
    for key, values in each.items():
        return [(f"{base}[{value}]", {key: value}) for value in values]
    return [(base, {})]


def everything(suite: str = "") -> list[Check]:
    """All checks of a suite."""
    order = {name: number for number, name in enumerate(SUITES[suite])}
    for module in order:
        import_module(f"checks.{module}")
    chosen = [check for check in _found if check.name.partition(".")[0] in order]
    return sorted(chosen, key=lambda c: order[c.name.partition(".")[0]])
