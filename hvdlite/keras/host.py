"""Between the tensors of Keras' backend and numpy's arrays, which the framework-free API takes."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from hvdlite.keras.flavour import KERAS, LEGACY

Array = np.ndarray[Any, Any]


def to_numpy(value: Any) -> Array:
    """The contents of a variable, a tensor, or what becomes one."""
    return np.asarray(value if LEGACY else KERAS.ops.convert_to_numpy(value))


def to_tensor(array: Any, dtype: Any = None) -> Any:
    """A tensor of the backend."""
    if LEGACY:
        import tensorflow as tf

        return tf.convert_to_tensor(array, dtype)
    return KERAS.ops.convert_to_tensor(array, dtype)


def variables_of(optimizer: Any) -> list[Any]:
    """An optimizer's; where Keras has a method for them, a property, or a list that can be
    called."""
    variables = optimizer.variables
    return list(
        variables if isinstance(variables, list) or not callable(variables) else variables()
    )


def build(optimizer: Any, variables: Sequence[Any]) -> None:
    """Makes an optimizer's variables now, if it has not made them yet."""
    if hasattr(optimizer, "_create_all_weights"):
        optimizer._create_all_weights(variables)
    # which tf_keras' have not: they know by themselves
    elif not getattr(optimizer, "built", False):
        optimizer.build(variables)


def prepared(optimizer: Any, variables: Sequence[Any] | None) -> list[Any]:
    """The variables that a call of apply() is about; the optimizer is built for them."""
    if variables is None:
        return list(optimizer._trainable_variables)
    variables = list(variables)
    if not optimizer.built:
        with KERAS.name_scope(optimizer.name):
            optimizer.build(variables)
        optimizer.built = True
    return variables


def model_variables(model: Any) -> list[Any]:
    """Those that ranks share: not the states of random generators, or dropout would be the same on
    all ranks."""
    return list(model.weights)


def is_variable(value: Any) -> bool:
    """Of Keras, or of TensorFlow."""
    # Before Keras 3.7 those of a model are of another class than keras.Variable.
    if not LEGACY and (
        isinstance(value, KERAS.Variable)
        or any(each.__name__ == "KerasVariable" for each in type(value).__mro__)
    ):
        return True
    tensorflow = sys.modules.get("tensorflow")
    return tensorflow is not None and isinstance(value, tensorflow.Variable)


def velocities_of(optimizer: Any) -> list[Any]:
    """Where an optimizer with momentum keeps what past gradients have left, with the learning rate
    multiplied in."""
    optimizer = getattr(optimizer, "inner_optimizer", optimizer)
    if hasattr(optimizer, "get_slot"):
        variables = [v for v in optimizer.variables() if "/momentum" in v.name]
    else:
        variables = (
            getattr(optimizer, "momentums", None) or getattr(optimizer, "_momentums", None) or []
        )
    # Adam keeps mere averages of gradients under a similar name; but has no attribute "momentum".
    return [v for v in variables if v is not None] if hasattr(optimizer, "momentum") else []
