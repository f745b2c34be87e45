"""A model on JAX: fit() keeps the variables' contents beside the model, and each step takes the
memory of those before."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hvdlite.keras.flavour import backend_name


def bring_up_to_date(model: Any, variables: Sequence[Any]) -> None:
    """The variables have what fit() has, and it is computed. Raises what the step has raised."""
    if backend_name() == "jax":
        from hvdlite.jax.elastic.trees import wait

        model.jax_state_sync()
        wait([variable.value for variable in variables])


def forget_step(model: Any) -> None:
    """What fit() has beside the model is that of a step that has failed."""
    if backend_name() == "jax":
        model._jax_state, model._jax_state_synced = None, True


def are_alive(variables: Sequence[Any]) -> bool:
    """Whether the variables have contents, which a step that fails has taken from them."""
    if backend_name() != "jax":
        return True
    from hvdlite.jax.elastic.trees import has_values

    contents = [variable._value for variable in variables]
    return not any(each is None for each in contents) and has_values(contents)
