"""The battery for hvdlite.tensorflow: as test_conformance.py, with the checks of the suite "tensorflow"."""

from __future__ import annotations

from battery import battery_of
from installed import needs_installed
from runner import Configuration

needs_installed("tensorflow")

# One process of each job imports TensorFlow for seconds, so there are few jobs. Two threads for a graph's nodes: what
# blocks one of them would show.
_QUIET = {"TF_CPP_MIN_LOG_LEVEL": "2", "TF_NUM_INTEROP_THREADS": "2", "TF_NUM_INTRAOP_THREADS": "1"}
CONFIGURATIONS = (
    Configuration("shm-1", "shm", 1, (), _QUIET, suite="tensorflow", tags=frozenset({"essential"})),
    Configuration("shm-3", "shm", 3, (), _QUIET, suite="tensorflow"),
    Configuration("net-2", "net", 2, ("host0", "host1"), _QUIET, suite="tensorflow"),
    Configuration(
        "without-kernels-2", "shm", 2, (), {**_QUIET, "HVDLITE_TENSORFLOW_KERNELS": "0"}, suite="tensorflow",
        tags=frozenset({"essential"}),
    ),
)  # fmt: skip

test_it, test_nothing_is_left_behind = battery_of(CONFIGURATIONS)
