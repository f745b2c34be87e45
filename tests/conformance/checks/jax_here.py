"""What the checks of hvdlite.jax share: numpy's data as arrays and back, and the ways to call an operation."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from checks.here import DTYPES

JAX_DTYPES = DTYPES
WAYS = ("at once", "compiled")

# As a context: inside it arrays may have 64 bits.
x64 = jax.enable_x64 if hasattr(jax, "enable_x64") else importlib.import_module("jax.experimental").enable_x64


def run(way: str, function: Callable[..., Any], *arguments: Any) -> Any:
    return (jax.jit(function) if way == "compiled" else function)(*arguments)


def array(value: Any) -> np.ndarray:
    assert isinstance(value, jax.Array), f"got a {type(value).__name__}"
    return np.asarray(value)


def arrays(values: Any) -> list[jax.Array]:
    return [jnp.asarray(v) for v in values]
