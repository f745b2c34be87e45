"""The battery for hvdlite.jax: as test_conformance.py, with the checks of the suite "jax"."""

from __future__ import annotations

from battery import battery_of
from installed import needs_installed
from runner import Configuration

needs_installed("jax")

# Compiling takes most of the time, and how fast its result is does not matter here.
_QUICKLY = {"XLA_FLAGS": "--xla_backend_optimization_level=0"}
CONFIGURATIONS = (
    Configuration("shm-1", "shm", 1, environment=_QUICKLY, suite="jax", modules=("jax_compiled", "jax_training")),
    Configuration("shm-2", "shm", 2, environment=_QUICKLY, suite="jax"),
    Configuration("shm-3", "shm", 3, environment=_QUICKLY, suite="jax", modules=("jax_others", "jax_arguments")),
)

test_it, test_nothing_is_left_behind = battery_of(CONFIGURATIONS)
