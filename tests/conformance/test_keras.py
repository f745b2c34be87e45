"""The battery for hvdlite.keras: as test_conformance.py, with the suite "keras" on each backend, and "tf_keras"."""

from __future__ import annotations

from importlib.util import find_spec

from battery import battery_of
from installed import needs_installed
from runner import Configuration

needs_installed("keras")

# Most of the time goes into compiling: XLA's machine code need not be fast here, and what Keras and hvdlite make of a step
# is decided before.
_HASTY = "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"
_QUIET = {"TF_CPP_MIN_LOG_LEVEL": "3", "OMP_NUM_THREADS": "1", "XLA_FLAGS": _HASTY}


def _on(backend: str, ranks: int) -> Configuration:
    suite = "tf_keras" if backend == "tf_keras" else "keras"
    chosen = {"TF_USE_LEGACY_KERAS": "1"} if backend == "tf_keras" else {"KERAS_BACKEND": backend}
    tags = frozenset(["three"]) if ranks == 3 else frozenset[str]()
    return Configuration(f"{backend}-{ranks}", "shm", ranks, environment=_QUIET | chosen, tags=tags, suite=suite)


# Three ranks for what depends on their number.
CONFIGURATIONS = tuple(
    _on(backend, ranks)
    for backend, numbers in (("torch", (2, 3)), ("jax", (2, 3)), ("tensorflow", (2, 3)), ("tf_keras", (2,)))
    for ranks in numbers
    if find_spec(backend)
)

test_it, test_nothing_is_left_behind = battery_of(CONFIGURATIONS, limit=900)
