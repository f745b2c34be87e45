"""Keras on JAX: inside the compiled step, and at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hvdlite.jax.compression import backend
from hvdlite.jax.compression.algebra import JaxAlgebra
from hvdlite.keras.backends import Backend, Turn
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

    def trace_step(
        self, model: Any, step: Callable[..., Any], batch: Any
    ) -> Callable[[], Any] | None:
        """Where Keras has made it with jit, which is in what `step` closes over."""
        inside = [cell.cell_contents for cell in step.__closure__ or ()]
        compiled = next((each for each in inside if hasattr(each, "lower")), None)
        return compiled and compiled.lower(_everything(model), batch).compile

    def in_turns(self, model: Any, step: Callable[..., Any], turn: Turn) -> Callable[..., Any]:
        """A step is a function of the state, which is in the variables where a step is made again,
        and behind a turn."""
        from hvdlite.keras.elastic.gate import backends_gate

        def are_alive() -> bool:
            return backends_gate().are_alive(model.variables)

        def of_state(state: Any, given: Any) -> Any:
            def make(batch: Any) -> Any:
                now = _everything(model, purge=True) if are_alive() else state
                logs, behind = step(now, iter([batch]))
                model._jax_state = dict(zip(_STATE, behind, strict=True))
                model._jax_state_synced = False
                return logs

            logs = turn(make)
            return logs, _everything(model) if are_alive() else state

        return of_state


_STATE = (
    "trainable_variables", "non_trainable_variables", "optimizer_variables", "metrics_variables",
)  # fmt: skip


def _everything(model: Any, purge: bool = False) -> Any:
    """The state of which a step is a function. `purge`: out of the variables, whose memory it
    takes."""
    return model._get_jax_state(**dict.fromkeys(_STATE, True), purge_model_variables=purge)


BACKEND = JaxBackend()
