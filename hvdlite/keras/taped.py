"""The gradients of a loss by TensorFlow's tape, as Keras' older optimizers computed them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hvdlite.keras.flavour import KERAS, backend_name


def gradients(optimizer: Any, loss: Any, variables: Sequence[Any], tape: Any) -> list[Any]:
    """This rank's. None for a variable on which the loss does not depend."""
    if backend_name() != "tensorflow":
        raise NotImplementedError(
            f"compute_gradients() needs TensorFlow's tape, but Keras' backend is {backend_name()}: "
            "compute gradients as that does, and give them to apply_gradients()"
        )
    if (
        isinstance(optimizer, KERAS.optimizers.LossScaleOptimizer)
        or optimizer.loss_scale_factor is not None
    ):
        raise NotImplementedError(
            "compute_gradients() does not scale the loss: compute the gradients of "
            "optimizer.scale_loss(loss) with a tape, and give them to apply_gradients()"
        )
    import tensorflow as tf

    if tape is None and not callable(loss):
        raise ValueError(
            "a loss that is a tensor needs the tape that has recorded it: compute_gradients(loss, "
            "variables, tape=tape)"
        )
    if callable(loss):
        tape = tf.GradientTape() if tape is None else tape
        with tape:
            loss = loss()
    return list(tape.gradient(loss, variables))
