"""Models of Keras on JAX, where a step is a function that takes the memory of what it is given.

It has no gate. fit() keeps the contents of the variables beside the model.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hvdlite.elastic.gate import Gate
from hvdlite.jax.elastic import state


class DonatingGate(Gate):
    def guards(self) -> bool:
        return False

    def wait(self, model: Any, variables: Sequence[Any]) -> None:
        model.jax_state_sync()
        state.wait([variable.value for variable in variables])

    def forget(self, model: Any) -> None:
        model._jax_state, model._jax_state_synced = None, True

    def are_alive(self, variables: Sequence[Any]) -> bool:
        contents = [variable._value for variable in variables]
        return not any(each is None for each in contents) and state.has_values(contents)


GATE = DonatingGate()
