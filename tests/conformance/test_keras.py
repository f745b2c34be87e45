"""The battery for hvdlite.keras: as test_conformance.py, with the suite "keras" on each backend,
and "tf_keras"."""

from __future__ import annotations

from importlib.util import find_spec

from battery import battery_of
from installed import needs_installed
from runner import Configuration
from tier import by_tier, one_of

needs_installed("keras")

# Most of the time goes into compiling: XLA's machine code need not be fast here, and what Keras and
# hvdlite make of a step is decided before.
_HASTY = "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"
# Callbacks compare weights after each batch: see checks/keras_drift.py.
_GUARDED = {"HVDLITE_DRIFT": "error", "HVDLITE_DRIFT_STEPS": "2"}
_QUIET = {"TF_CPP_MIN_LOG_LEVEL": "3", "OMP_NUM_THREADS": "1", "XLA_FLAGS": _HASTY}


_PER_BACKEND = (
    "keras_training", "keras_optimizer", "keras_drift", "local_steps", "large_batches",
    "keras_strategies", "keras_matrix", "by_strategy", "keras_by_strategy",
)  # fmt: skip


def _on(backend: str, ranks: int, *modules: str, turns: int = 1) -> Configuration:
    suite = "tf_keras" if backend == "tf_keras" else "keras"
    chosen = {"TF_USE_LEGACY_KERAS": "1"} if backend == "tf_keras" else {"KERAS_BACKEND": backend}
    tags = frozenset(["three"]) if ranks == 3 else frozenset[str]()
    return Configuration(
        f"{backend}-{ranks}", "shm", ranks, (), _QUIET | _GUARDED | chosen, modules, tags, suite,
        turns=turns,
    )  # fmt: skip


# Three ranks for what depends on their number. A check costs 0.6 s of the processor on torch, and 4
# on JAX, which compiles it: each commit's run makes all on torch, and by turns what depends on the
# backend on the others.
_CONFIGURATIONS = by_tier(
    quick=(_on("torch", 2, "keras_optimizer"),),
    commit=(
        _on("torch", 2),
        *one_of(
            (
                _on("jax", 2, *_PER_BACKEND, turns=5),
                _on("tensorflow", 2, *_PER_BACKEND, turns=3),
            ),
            "keras compiled",
        ),
        *one_of(
            (_on("torch", 3), _on("jax", 3), _on("tensorflow", 3), _on("tf_keras", 2)), "keras"
        ),
    ),
    everything=tuple(
        _on(backend, ranks)
        for backend, numbers in (
            ("torch", (2, 3)),
            ("jax", (2, 3)),
            ("tensorflow", (2, 3)),
            ("tf_keras", (2,)),
        )
        for ranks in numbers
    ),
)
CONFIGURATIONS = tuple(c for c in _CONFIGURATIONS if find_spec(c.name.partition("-")[0]))

test_it, test_nothing_is_left_behind = battery_of(CONFIGURATIONS, limit=900)
