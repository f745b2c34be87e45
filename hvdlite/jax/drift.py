"""The drift guard for training loops of JAX."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from hvdlite.adapter.array_guard import StepGuard
from hvdlite.core.process_sets import ProcessSet, global_process_set
from hvdlite.jax import trace

__all__ = ["DriftGuard"]


class DriftGuard:
    """Whether the parameters of all ranks stay the same: see docs/guides/troubleshooting.md.

        guard = hvd.DriftGuard()
        for batch in data:
            params, state = train_step(params, state, batch)
            guard.compare(params)

    All members of `process_set` call compare() equally often, outside jax.jit. Most calls read none
    of the parameters, and none reads all.
    """

    def __init__(self, process_set: ProcessSet = global_process_set) -> None:
        self._steps = StepGuard("jax", process_set, np.asarray)

    @property
    def compared(self) -> int:
        """How often parts of the parameters were compared."""
        return self._steps.compared

    def compare(self, params: Any) -> None:
        """Compares a part of the tree of arrays in some of the calls. Raises MismatchError on all
        ranks if one differs and HVDLITE_DRIFT=error."""
        if trace.is_tracing():
            raise RuntimeError(
                "DriftGuard.compare() was called in a function that JAX traces: call it after the "
                "compiled function, in the loop over the batches"
            )
        leaves, structure = jax.tree_util.tree_flatten(params)
        self._steps.step(leaves, structure, lambda: _labels(params))


def _labels(params: Any) -> list[str]:
    paths, _ = jax.tree_util.tree_flatten_with_path(params)
    return [jax.tree_util.keystr(path) for path, _ in paths]
