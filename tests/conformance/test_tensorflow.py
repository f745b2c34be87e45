"""The battery for hvdlite.tensorflow: as test_conformance.py, with the checks of the suite
"tensorflow"."""

from __future__ import annotations

from dataclasses import replace

from battery import battery_of
from installed import needs_installed
from runner import Configuration
from tier import by_tier, one_of

needs_installed("tensorflow")

# One process of each job imports TensorFlow for seconds, so there are few jobs. Two threads for a
# graph's nodes: what blocks one of them would show.
_QUIET = {
    "TF_CPP_MIN_LOG_LEVEL": "2", "TF_NUM_INTEROP_THREADS": "2", "TF_NUM_INTRAOP_THREADS": "1",
    # How fast XLA's code is does not matter here.
    "XLA_FLAGS": "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true",
}  # fmt: skip
_ESSENTIAL = frozenset({"essential"})
_ALONE = Configuration("shm-1", "shm", 1, (), _QUIET, suite="tensorflow", tags=_ESSENTIAL, turns=2)
_THREE = Configuration("shm-3", "shm", 3, (), _QUIET, suite="tensorflow")
_NET = Configuration("net-2", "net", 2, ("host0", "host1"), _QUIET, suite="tensorflow")
_WITHOUT_KERNELS = Configuration(
    "without-kernels-2",
    "shm",
    2,
    (),
    {**_QUIET, "HVDLITE_TENSORFLOW_KERNELS": "0"},
    suite="tensorflow",
    tags=_ESSENTIAL,
    turns=3,
)
_ESSENTIAL_NET = replace(_NET, tags=_ESSENTIAL, turns=3)

CONFIGURATIONS = by_tier(
    quick=(_ESSENTIAL_NET,),
    commit=(
        replace(_THREE, turns=2),
        *one_of((_ALONE, _ESSENTIAL_NET, _WITHOUT_KERNELS), "tensorflow"),
    ),
    everything=(_ALONE, _THREE, _NET, _WITHOUT_KERNELS),
)

test_it, test_nothing_is_left_behind = battery_of(CONFIGURATIONS)
