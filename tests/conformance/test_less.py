"""What sends less, in each framework, at 1 to 4 ranks and over shared memory, TCP and two hosts of
two ranks: its exact results (docs/guides/compression.md, docs/guides/communicating-less.md)."""

from __future__ import annotations

from importlib.util import find_spec

import pytest
from battery import battery_of
from runner import Configuration

_PLACES = (
    *((f"shm-{ranks}", "shm", ranks, ()) for ranks in (1, 2, 3, 4)),
    *((f"net-{ranks}", "net", ranks, tuple(f"host{r}" for r in range(ranks))) for ranks in (2, 4)),
    ("hierarchical-2x2", "hierarchical", 4, ("a", "a", "b", "b")),
)
# Compiling takes most of the time, and how fast its result is does not matter here.
_HASTY = {
    "XLA_FLAGS": "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true",
    "OMP_NUM_THREADS": "1",
    "TF_CPP_MIN_LOG_LEVEL": "3",
}
_BATTERY = ("compressors", "momenta", "local_steps", "large_batches")
# package, suite, its modules, environment
_FRAMEWORKS = (
    ("torch", "torch", (*_BATTERY, "torch_methods", "torch_strategies", "torch_factors"), {}),
    ("jax", "jax", (*_BATTERY, "jax_methods", "jax_strategies"), {}),
    ("tensorflow", "tensorflow", ("compressors", "tensorflow_methods"), {}),
    *(
        (
            backend,
            "keras",
            (*_BATTERY, "keras_methods", "keras_strategies"),
            {"KERAS_BACKEND": backend},
        )
        for backend in ("torch", "jax", "tensorflow")
    ),
)

CONFIGURATIONS = tuple(
    Configuration(
        f"{suite if suite == package else f'{suite}-on-{package}'}-{place}",
        way,
        ranks,
        hosts,
        _HASTY | environment,
        modules,
        suite=suite,
    )
    for package, suite, modules, environment in _FRAMEWORKS
    if find_spec(package) and (suite != "keras" or find_spec("keras"))
    for place, way, ranks, hosts in _PLACES
)

if not CONFIGURATIONS:
    pytest.skip("neither torch, jax nor tensorflow is installed", allow_module_level=True)

test_it, test_nothing_is_left_behind = battery_of(CONFIGURATIONS, limit=900)
