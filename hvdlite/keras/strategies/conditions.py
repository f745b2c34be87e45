"""What depends on a number of the step, on each backend of Keras: at once, in a graph, and in a
compiled program."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from hvdlite.keras.flavour import KERAS, backend_name

_BEGIN = time.time()  # float32 has not enough digits for the clock of a machine


def when(condition: Any, change: Callable[[], None], variables: Sequence[Any]) -> None:
    """Calls `change` if the condition is true; it may assign to these variables."""
    if backend_name() != "jax":
        KERAS.ops.cond(condition, change, lambda: None)
        return
    from hvdlite.jax.strategies.either import either

    def changed(values: list[Any]) -> list[Any]:
        # what a branch assigns must leave it as its result
        mapping = list(zip(variables, values, strict=True))
        with KERAS.StatelessScope(state_mapping=mapping) as scope:
            change()
        return [scope.get_current_value(variable) for variable in variables]

    before = [variable.value for variable in variables]
    for variable, value in zip(variables, either(condition, changed, before), strict=True):
        variable.assign(value)


def chosen(condition: Any, change: Callable[[list[Any]], list[Any]], given: list[Any]) -> list[Any]:
    """change(given) if the condition is true, else `given`: tensors."""
    if backend_name() == "jax":
        from hvdlite.jax.strategies.either import either

        return list(either(condition, change, given))
    return list(KERAS.ops.cond(condition, lambda: list(change(given)), lambda: list(given)))


def seconds() -> Any:
    """The clock of this process, when the step runs."""
    if backend_name() == "jax":
        from hvdlite.jax.strategies import either

        return either.seconds()
    if backend_name() == "tensorflow":
        import tensorflow as tf

        return tf.cast(tf.timestamp() - _BEGIN, tf.float32)
    return time.time() - _BEGIN
