"""JAX's primitives for hvdlite.adapter. Arrays in host memory are numpy's: the core reads a
jax.Array where it lies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from hvdlite.core.framework import DTYPES, Common
from hvdlite.core.gradients import Rule
from hvdlite.jax import trace, traced

Array = Any

SUPPORTED = frozenset(jnp.dtype(name) for name in DTYPES)
float0 = jax.dtypes.float0


class JaxFramework(Common):
    """See hvdlite.core.framework.Framework."""

    def check(self, tensor: Any) -> None:
        """TypeError or ValueError with a sentence, if this cannot be communicated."""
        dtype = getattr(tensor, "dtype", None)
        if dtype is None:
            raise TypeError(f"expected a JAX array, got {type(tensor).__name__}")
        if jax.dtypes.issubdtype(dtype, jax.dtypes.prng_key):
            raise ValueError(
                "a random key cannot be communicated as it is: send jax.random.key_data(key), and "
                "wrap what comes with jax.random.wrap_key_data()"
            )
        if dtype not in SUPPORTED:
            raise ValueError(
                f"arrays of dtype {dtype} cannot be communicated; cast to one of "
                f"{', '.join(DTYPES)}"
            )

    def lend(self, tensor: Array, in_place: bool = False) -> Any:
        self.check(tensor)
        return np.asarray(tensor, order="C")

    def empty_like(self, host: Any) -> Any:
        return np.empty(host.shape, host.dtype)

    def deliver(self, host: Any, like: Array) -> Array:
        return jax.device_put(host, getattr(like, "sharding", None))

    def write_back(self, host: Any, tensor: Array) -> Array:
        raise TypeError("a JAX array cannot be written to")

    def adopt(self, array: Any, like: Array) -> Array:
        # bfloat16, which the core hands over as the int16 of the same bits
        if array.dtype != like.dtype:
            array = array.view(like.dtype)
        # Its number of rows may not suit the sharding of `like`.
        devices = like.devices() if isinstance(like, jax.Array) else set()
        return jax.device_put(array, next(iter(devices)) if len(devices) == 1 else None)

    def integers(self, values: Sequence[int], like: Array | None) -> Array:
        return jnp.asarray(values, jnp.int32)

    def lengthened(self, tensor: Array, rows: int) -> Array:
        missing = rows - tensor.shape[0]
        return (
            jnp.concatenate([tensor, jnp.zeros((missing, *tensor.shape[1:]), tensor.dtype)])
            if missing
            else tensor
        )

    def is_floating(self, tensor: Array) -> bool:
        return bool(jnp.issubdtype(tensor.dtype, jnp.floating))

    def cast(self, tensor: Array, dtype: Any) -> Array:
        return tensor.astype(dtype)

    def differentiable(self, rule: Rule, tensors: Sequence[Array]) -> tuple[Array, ...]:
        if not trace.is_tracing():
            return rule.forward(tensors)
        # The token goes in and out as one more float, so that its "gradient" brings the way back
        # into order, too.
        inputs = [jax.ShapeDtypeStruct(t.shape, t.dtype) for t in tensors]

        @jax.custom_vjp
        def run(token: Array, *given: Array) -> tuple[Array, ...]:
            with traced.after(token):
                results = rule.forward(given)
                return (traced.token(), *results)

        def forward(token: Array, *given: Array) -> tuple[tuple[Array, ...], Array]:
            results = run(token, *given)
            return results, results[0]

        def backward(there: Array, gradients: tuple[Array, ...]) -> tuple[Array, ...]:
            token, *rest = gradients
            with traced.after(there + token):
                found = _backward(rule, rest, inputs)
                return (traced.token(), *found)

        run.defvjp(forward, backward)
        token, *results = run(traced.token(), *tensors)
        traced.follow(token)
        return tuple(results)


def _backward(rule: Rule, gradients: Sequence[Array], inputs: Sequence[Any]) -> list[Array]:
    """rule.backward(), for tensors of which some are no floats and have gradients of the type
    "nothing"."""
    if all(g.dtype == float0 for g in gradients):
        return [np.zeros(i.shape, float0) for i in inputs]
    filled = [jnp.zeros(g.shape, jnp.float32) if g.dtype == float0 else g for g in gradients]
    found = rule.backward(filled)
    return [
        f if jnp.issubdtype(i.dtype, jnp.floating) else np.zeros(i.shape, float0)
        for f, i in zip(found, inputs, strict=True)
    ]


FRAMEWORK = JaxFramework()


# ---- what may stand in a pytree: arrays, numbers, and gradients of integers, which are nothing and
# do not travel


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
