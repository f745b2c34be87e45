"""Which Keras a program uses: Keras 3, or tf_keras where TF_USE_LEGACY_KERAS=1 has made it
tf.keras."""

from __future__ import annotations

import os
from importlib import import_module
from typing import Any

#: as TensorFlow reads the variable
LEGACY = os.environ.get("TF_USE_LEGACY_KERAS") in ("true", "True", "1")


def _load() -> Any:
    if LEGACY:
        return import_module("tf_keras")
    module = import_module("keras")
    if module.__version__.startswith("2."):
        raise ImportError(
            f"hvdlite.keras needs Keras 3, but keras {module.__version__} is installed: pip "
            "install 'keras>=3'. For programs that were written for Keras 2: pip install "
            "tf_keras, and set TF_USE_LEGACY_KERAS=1."
        )
    return module


#: the module keras, or tf_keras
KERAS: Any = _load()


def backend_name() -> str:
    """tensorflow, torch or jax."""
    return "tensorflow" if LEGACY else str(KERAS.backend.backend())
