"""Compression for Keras: hvd.Compression.none, .fp16 and .bf16, on every backend, and the class to
derive others from."""

from __future__ import annotations

from typing import Any

from hvdlite.adapter.compression import Compressor, choices
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


Compression = choices(_Primitives(), "float16", "bfloat16")  # type: ignore[arg-type]
