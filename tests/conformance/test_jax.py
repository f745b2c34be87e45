"""The battery for hvdlite.jax: as test_conformance.py, with the checks of the suite "jax"."""

from __future__ import annotations

from dataclasses import replace

from battery import battery_of
from installed import needs_installed
from runner import Configuration
from tier import by_tier, one_of

needs_installed("jax")

# Compiling takes most of the time, and how fast its result is does not matter here.
_QUICKLY = {
    "XLA_FLAGS": "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"
}
_ALONE = Configuration(
    "shm-1", "shm", 1, (), _QUICKLY, ("programs", "jax_compiled", "jax_training"), suite="jax",
    turns=2,
)  # fmt: skip
_TWO = Configuration("shm-2", "shm", 2, (), _QUICKLY, suite="jax")
_THREE = Configuration(
    "shm-3",
    "shm",
    3,
    (),
    _QUICKLY,
    ("collectives", "jax_trees", "arguments", "jax_arguments"),
    suite="jax",
    turns=4,
)

CONFIGURATIONS = by_tier(
    quick=(
        replace(_TWO, modules=("collectives", "jax_trees", "objects", "jax_functions"), turns=3),
    ),
    commit=(replace(_TWO, turns=2), *one_of((_ALONE, _THREE), "jax")),
    everything=(_ALONE, _TWO, _THREE),
)

test_it, test_nothing_is_left_behind = battery_of(CONFIGURATIONS)
