"""What all functions ask and do that wrap an optimizer of Keras."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator
from typing import Any

from hvdlite.keras.flavour import KERAS


def refuse_twice(optimizer: Any) -> None:
    """A ValueError if the optimizer communicates by itself."""
    for each in (optimizer, getattr(optimizer, "inner_optimizer", None)):
        if hasattr(each, "_hvd") or hasattr(each, "_hvd_settings"):
            raise ValueError("the optimizer is a DistributedOptimizer already")


def with_loss_scaling(optimizer: Any) -> Any:
    """As Model.compile() does it for mixed precision; but in Keras 3 the distributed optimizer has
    to be the outer one."""
    scaler = KERAS.optimizers.LossScaleOptimizer
    if KERAS.config.dtype_policy().name != "mixed_float16" or isinstance(optimizer, scaler):
        return optimizer
    return scaler(optimizer)


@contextlib.contextmanager
def without(optimizer: Any, added: Collection[int]) -> Iterator[None]:
    """In this context, which is for files, the optimizer lacks the variables with these ids."""
    everything = optimizer.__dict__["_variables"]
    plain = [variable for variable in everything if id(variable) not in added]
    # on TensorFlow, Keras tracks what is set in the usual way
    object.__setattr__(optimizer, "_variables", plain)
    try:
        yield
    finally:
        object.__setattr__(optimizer, "_variables", everything)
