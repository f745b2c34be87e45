"""What may stand in a pytree: arrays, numbers, and gradients of integers, which are nothing and do
not travel."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from hvdlite.jax.framework import float0

Array = Any


def map_leaves(tree: Any, send: Callable[[list[Array]], Sequence[Array]]) -> Any:
    """The tree with its leaves, all but those that are nothing, as arrays gone through `send`."""
    leaves, structure = jax.tree_util.tree_flatten(tree)
    places = [i for i, leaf in enumerate(leaves) if getattr(leaf, "dtype", None) != float0]
    if not places:
        return tree
    for place, result in zip(places, send([_array(leaves[i]) for i in places]), strict=True):
        leaves[place] = result
    return jax.tree_util.tree_unflatten(structure, leaves)


def _array(leaf: Any) -> Array:
    if isinstance(leaf, jax.Array):
        return leaf
    try:
        return jnp.asarray(leaf)
    except TypeError:
        raise TypeError(f"expected arrays or numbers, got a {type(leaf).__name__}") from None
