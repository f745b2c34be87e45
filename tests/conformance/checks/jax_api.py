"""Arrays of JAX, at once and in compiled functions."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import hvdlite.jax
from checks.api import TracingApi, Way
from checks.jax_run import JaxRun

# As a context: inside it arrays may have 64 bits.
x64 = (
    jax.enable_x64
    if hasattr(jax, "enable_x64")
    else importlib.import_module("jax.experimental").enable_x64
)
WAYS = ("at once", "compiled")


class JaxApi(TracingApi):
    hvd = hvdlite.jax
    Run = JaxRun
    modes = WAYS
    fixed_modes = ("compiled",)
    gradient_dtypes = ("float64",)
    dtype_error = (ValueError, "")

    def tensor(self, array: np.ndarray) -> jax.Array:
        with x64(True):
            return jnp.asarray(array)

    def array(self, tensor: Any) -> np.ndarray:
        assert isinstance(tensor, jax.Array), f"got a {type(tensor).__name__}"
        return np.asarray(tensor)

    def together(self, operation: str) -> Callable[..., Any]:
        """Each operation takes trees."""
        return getattr(self.hvd, operation)  # type: ignore[no-any-return]

    def made(self, mode: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """Waits for the results, and raises hvdlite's own exceptions."""
        program = jax.jit(function) if mode == "compiled" else function

        def call(*arguments: Any) -> Any:
            with x64(True), self.hvd.translated_errors():
                return jax.block_until_ready(program(*arguments))

        return call

    def run(self, mode: str, function: Callable[..., Any], *tensors: Any) -> Any:
        return self.made(mode, function)(*tensors)

    def program(self, function: Callable[..., Any], *tensors: Any) -> str:
        with x64(True):
            return str(jax.jit(function).lower(*tensors).compile().as_text())

    def ways(self, operation: str) -> Iterator[Way]:
        """At once, too, XLA compiles something for each new shape."""
        for way in super().ways(operation):
            yield replace(way, traced=True)

    def wrong_dtypes(self) -> list[Any]:
        return [jnp.ones(3, jnp.complex64), jax.random.key(0)]

    def wrong_splits(self, size: int) -> list[Any]:
        return [[0.5] * size, [1.0] * size]

    def pull(self, function: Callable[[Any], Any], x: Any, dy: Any) -> Any:
        return jax.vjp(function, x)[1](dy)[0]


API = JaxApi()
array = API.array


def run(way: str, function: Callable[..., Any], *arguments: Any) -> Any:
    """With what JAX takes by default: 32 bits, and no waiting."""
    return (jax.jit(function) if way == "compiled" else function)(*arguments)
