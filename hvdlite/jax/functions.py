"""Ranks are equal at the start and stay so: parameters, optimizer state, any object, and the drift
guard for training loops."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import jax
import numpy as np

from hvdlite.adapter import failures
from hvdlite.adapter.agreement.drift_guard import StepGuard
from hvdlite.core.arrays.objects import allgather_object, broadcast_object
from hvdlite.core.process_sets import ProcessSet, global_process_set
from hvdlite.jax import trace
from hvdlite.jax.framework import map_leaves
from hvdlite.jax.ops import OPS, broadcast

__all__ = ["allgather_object", "broadcast_object", "broadcast_parameters"]

Tree = Any


def broadcast_parameters(
    params: Tree, root_rank: int = 0, *, process_set: ProcessSet = global_process_set
) -> Tree:
    """The tree with `root_rank`'s arrays, all under way at once: parameters, an optimizer's state,
    random keys."""
    plain = jax.tree_util.tree_map(
        lambda leaf: jax.random.key_data(leaf) if _is_key(leaf) else leaf, params
    )

    def send(arrays: list[Any]) -> list[Any]:
        names = [f"parameters.{i}" for i in range(len(arrays))]
        if trace.is_tracing():
            return [
                broadcast(a, root_rank, name, process_set=process_set)
                for a, name in zip(arrays, names, strict=True)
            ]
        return OPS.broadcast_all(arrays, names, root_rank, process_set)

    def as_before(before: Any, after: Any) -> Any:
        if not _is_key(before):
            return after
        return jax.random.wrap_key_data(after, impl=jax.random.key_impl(before))

    return jax.tree_util.tree_map(as_before, params, map_leaves(plain, send))


def _is_key(leaf: Any) -> bool:
    dtype = getattr(leaf, "dtype", None)
    return dtype is not None and jax.dtypes.issubdtype(dtype, jax.dtypes.prng_key)


class DriftGuard(StepGuard):
    __doc__ = StepGuard.__doc__

    def contents(self, parameter: Any) -> Any:
        return np.asarray(parameter)

    def flat(self, parameters: Any) -> Any:
        return jax.tree_util.tree_flatten(parameters)

    def labels(self, parameters: Any) -> list[str]:
        paths, _ = jax.tree_util.tree_flatten_with_path(parameters)
        return [jax.tree_util.keystr(path) for path, _ in paths]

    def is_recorded(self) -> bool:
        return trace.is_tracing()


@contextlib.contextmanager
def translated_errors() -> Iterator[None]:
    """A collective that fails inside a compiled function raises jax.errors.JaxRuntimeError, or
    ValueError where JAX runs the program before it returns, with hvdlite's message. In this block,
    or under it as a decorator, it is hvdlite's exception instead: PeerLostError, MismatchError, ...

    Where JAX does not, it returns before a computation has ended; fetch or block on a result inside
    the block.
    """
    with failures.translated(RuntimeError, ValueError):
        yield
