"""What depends on a number of the step, on each backend of Keras: at once, in a graph, and in a
compiled program."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from hvdlite.adapter.at_once.reduction import reduced
from hvdlite.adapter.step import Options
from hvdlite.keras import backends
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


# ---- the gradients of a step: those of all ranks or this rank's own, as a compiled step decides


def reduced_if(
    condition: Any, options: Options, gradients: Sequence[Any], variables: Sequence[Any]
) -> list[Any]:
    """reduced() if the condition is true, else the gradients themselves: dense, with None where
    there is none."""
    backend = backends.chosen()
    if backend.dynamic:  # the condition is a number already, and gradients may be missing here only
        dense = [None if each is None else backend.to_dense(each) for each in gradients]
        return reduced(options, backend, dense, variables) if bool(condition) else dense
    results = list(gradients)
    there = [i for i, gradient in enumerate(gradients) if gradient is not None]
    own = [backend.to_dense(gradients[i]) for i in there]

    def of_all(given: list[Any]) -> list[Any]:
        whole = [None] * len(results)
        for i, gradient in zip(there, given, strict=True):
            whole[i] = gradient
        means = reduced(options, backend, whole, variables)
        return [means[i] for i in there]

    for i, gradient in zip(there, chosen(condition, of_all, own), strict=True):
        results[i] = gradient
    return results
