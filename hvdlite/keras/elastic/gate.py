"""The update gate in Keras' optimizers: below DistributedOptimizer, which has reduced by then."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from hvdlite.adapter import elastic
from hvdlite.elastic.gate import Gate
from hvdlite.keras.flavour import LEGACY, backend_name


class Gated:
    """Between what reduces and an optimizer of Keras 3."""

    def apply(self, grads: Sequence[Any], trainable_variables: Sequence[Any] | None = None) -> None:
        """One optimization step, once all these gradients are there."""
        with backends_gate().behind(grads):
            super().apply(grads, trainable_variables)  # type: ignore[misc]


class GatedOfTfKeras:
    """Between what reduces and an optimizer of tf_keras."""

    def apply_gradients(self, grads_and_vars: Any, *args: Any, **kwargs: Any) -> Any:
        """One optimization step, once all these gradients are there."""
        pairs = list(grads_and_vars)
        with backends_gate().behind([gradient for gradient, _ in pairs]):
            return super().apply_gradients(pairs, *args, **kwargs)  # type: ignore[misc]


def bases() -> tuple[type, ...]:
    """What stands below the class that reduces: the gate, in elastic jobs."""
    if not elastic.enabled():
        return ()
    return (GatedOfTfKeras if LEGACY else Gated,)


def guards(optimizer: Any) -> bool:
    """Whether a step that fails leaves what this optimizer updates as it was.

    Passes that only add up gradients change variables without a gate.
    """
    inner = getattr(optimizer, "inner_optimizer", None)
    gated = next((o for o in (optimizer, inner) if isinstance(o, (Gated, GatedOfTfKeras))), None)
    return gated is not None and gated._hvd.passes == 1 and backends_gate().guards()  # type: ignore[union-attr]


@functools.cache
def backends_gate() -> Gate:
    """Loads hvdlite's adapter of the backend, which most programs need for nothing else."""
    if backend_name() == "torch":
        return Gate()
    gate: Gate = import_module(f"hvdlite.{backend_name()}.elastic.gate").GATE
    return gate
