"""The battery for hvdlite.torch: as test_conformance.py, with the checks of the suite "torch"."""

from __future__ import annotations

from dataclasses import replace

import checks
from battery import battery_of
from installed import needs_installed
from runner import Configuration
from tier import by_tier, one_of

needs_installed("torch")

# Two ranks try everything. What is compiled knows nothing of their number, and an optimizer nothing
# of the way of its gradients; four ranks are for what combines them in pairs, a network for what
# crosses it.
# Everything trains under the drift guard, which compares parameters in each step, and for which
# no check may make ranks differ without saying so.
_GUARDED = {"HVDLITE_DRIFT": "error", "HVDLITE_DRIFT_STEPS": "2"}
_COLLECTIVES = ("collectives", "torch_tensors", "gradients", "torch_gradients")
_NOT_COMPILED = tuple(module for module in checks.SUITES["torch"] if module != "torch_compiled")
_ALONE = Configuration("shm-1", "shm", 1, suite="torch", modules=_NOT_COMPILED)
_TWO = Configuration("shm-2", "shm", 2, environment=_GUARDED, suite="torch")
_THREE = Configuration(
    "shm-3", "shm", 3, environment=_GUARDED, suite="torch", modules=_NOT_COMPILED
)
_FOUR = Configuration(
    "shm-4",
    "shm",
    4,
    suite="torch",
    modules=(*_COLLECTIVES, "torch_compression", "torch_batch_norm"),
)
_NET = Configuration(
    "net-2",
    "net",
    2,
    ("host0", "host1"),
    suite="torch",
    modules=(
        *_COLLECTIVES, "compressors", "momenta", "torch_methods", "torch_absent", "torch_misuse",
        "torch_life",
    ),
)  # fmt: skip

# On a Python for which hvdlite has no compiled module.
_BY_CTYPES = replace(
    _TWO, name="by-ctypes-2", environment={**_GUARDED, checks.BY_CTYPES: "1"}, modules=_NOT_COMPILED
)

CONFIGURATIONS = by_tier(
    quick=(replace(_TWO, turns=3),),
    commit=(_TWO, *one_of((_ALONE, _THREE, _FOUR, _NET), "torch")),
    everything=(_ALONE, _TWO, _THREE, _FOUR, _NET, _BY_CTYPES),
)

test_it, test_nothing_is_left_behind = battery_of(CONFIGURATIONS)
