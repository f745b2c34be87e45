"""What all functions ask and do that wrap an optimizer of Keras."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

from hvdlite.keras import backends
from hvdlite.keras.flavour import KERAS, backend_name


def refuse_inside_loss_scaling(what: str, instead: str) -> None:
    """For build(): a ValueError if a LossScaleOptimizer calls that of the optimizer inside it."""
    called = sys._getframe(1)
    outer = called.f_back.f_locals.get("self") if called.f_back else None
    inner = called.f_locals.get("self")
    if isinstance(outer, KERAS.optimizers.LossScaleOptimizer) and outer is not inner:
        raise ValueError(
            f"this {what} is inside a LossScaleOptimizer, where each rank would decide by itself "
            f"whether to take a step, and the others would wait for ever. {instead}"
        )


def take_variables(optimizer: Any) -> None:
    """Of one that is built. Before Keras 3.12 a LossScaleOptimizer leaves the variables that it
    trains to the optimizer inside it."""
    if not optimizer._trainable_variables:
        inner = getattr(optimizer, "inner_optimizer", optimizer)
        # on TensorFlow, Keras tracks what is set in the usual way
        object.__setattr__(optimizer, "_trainable_variables", list(inner._trainable_variables))


def refuse_other_variables(optimizer: Any, given: Collection[Any]) -> None:
    """For JAX, where a step is a function of all variables: a ValueError, as of Keras' own
    optimizers, if these are not as many as those that it was built for."""
    built_for = len(optimizer._trainable_variables)
    if len(given) != built_for:
        raise ValueError(
            f"this optimizer was built for {built_for} trainable variables and was given "
            f"{len(given)}. On JAX, when `trainable` of a layer has changed, call compile() with a "
            "new optimizer on all ranks (behind sync(), if it has local steps)"
        )


def come_together(optimizer: Any) -> None:
    """Where averages go by time, a rank may still be in one that another rank's next message does
    not fit. All ranks call this before they exchange anything else."""
    settings = getattr(optimizer, "_hvd_settings", None)
    if settings is not None and settings.plan.is_timed and optimizer.built:
        optimizer.sync()


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


def when(condition: Any, change: Callable[[], None], variables: Sequence[Any]) -> None:
    """Calls `change` if the condition is true, which a compiled step decides; it may assign to
    these variables."""
    if backend_name() != "jax":
        KERAS.ops.cond(condition, change, lambda: None)
        return

    def changed(values: list[Any]) -> list[Any]:
        # what a branch assigns must leave it as its result
        mapping = list(zip(variables, values, strict=True))
        with KERAS.StatelessScope(state_mapping=mapping) as scope:
            change()
        return [scope.get_current_value(variable) for variable in variables]

    before = [variable.value for variable in variables]
    after = backends.chosen().either(condition, changed, before)
    for variable, value in zip(variables, after, strict=True):
        variable.assign(value)


@contextlib.contextmanager
def handed_on(optimizer: Any) -> Iterator[None]:
    """In this context the optimizer makes its own step with what hvdlite has made of gradients."""
    object.__setattr__(optimizer, "_hvd_handing_on", True)
    try:
        yield
    finally:
        object.__setattr__(optimizer, "_hvd_handing_on", False)


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
