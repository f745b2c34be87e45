"""Compression for Keras, on every backend: hvd.Compression, and the class to derive others from."""

from __future__ import annotations

from typing import Any

from hvdlite.adapter.compression import Compressor, choices
from hvdlite.adapter.compression.algebra import Algebra
from hvdlite.keras.backends import chosen
from hvdlite.keras.flavour import KERAS, LEGACY

__all__ = ["Compression", "Compressor"]


class _Primitives:
    """As much of hvdlite.core.framework.Framework as a cast needs: eager, and while a step is
    traced."""

    def dtype(self, tensor: Any) -> str:
        return tensor.dtype.name if LEGACY else str(KERAS.backend.standardize_dtype(tensor.dtype))

    def is_floating(self, tensor: Any) -> bool:
        return "float" in self.dtype(tensor)

    def cast(self, tensor: Any, dtype: str) -> Any:
        return KERAS.backend.cast(tensor, dtype) if LEGACY else KERAS.ops.cast(tensor, dtype)


def _algebra() -> Algebra:
    return chosen().algebra


Compression = choices(_Primitives(), "float16", "bfloat16", _algebra)  # type: ignore[arg-type]
