"""Keras on JAX: inside the compiled step, and at once."""

from __future__ import annotations

from typing import Any

from hvdlite.jax.compression import backend
from hvdlite.jax.compression.algebra import JaxAlgebra
from hvdlite.keras.backends import Backend
from hvdlite.keras.flavour import KERAS


class _Algebra(JaxAlgebra):
    """Its cells are variables, which have other values while a step is traced."""

    def cell(self, array: Any) -> Any:
        return KERAS.Variable(array, trainable=False, name="compression")

    def read(self, cell: Any) -> Any:
        return cell.value

    def write(self, cell: Any, array: Any) -> Any:
        cell.assign(array)
        return cell


class JaxBackend(backend.JaxBackend, Backend):
    """JAX' own."""

    algebra = _Algebra()
    keeps_memory_in_optimizer = True


BACKEND = JaxBackend()
