"""Ways to train that send less, or take larger batches, than averaging each step's gradients.

Names are looked up when they are used, because LARS needs Keras 3.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hvdlite.adapter.outer import OuterSGD as OuterSGD
    from hvdlite.keras.strategies.lars import LARS as LARS
    from hvdlite.keras.strategies.local_steps import DiLoCo as DiLoCo
    from hvdlite.keras.strategies.local_steps import LocalSGD as LocalSGD

_HOMES = {
    "DiLoCo": "hvdlite.keras.strategies.local_steps",
    "LARS": "hvdlite.keras.strategies.lars",
    "LocalSGD": "hvdlite.keras.strategies.local_steps",
    "OuterSGD": "hvdlite.adapter.outer",
}

__all__ = ["LARS", "DiLoCo", "LocalSGD", "OuterSGD"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
