"""One rank of a job whose JAX runs on a GPU: collectives alone and inside compiled programs,
compared with what all ranks' inputs give on the processor.

    hvdliterun -np 2 python tests/gpu/jax_ranks.py [--hosts]

All ranks share the first GPU. --hosts is that of ranks.py. JAX_PLATFORMS=cpu tries the checks
themselves.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from types import SimpleNamespace

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # several ranks share the memory

import jax
import jax.numpy as jnp
import numpy as np
from checking import all_right, pretend_hosts

import hvdlite.jax as hvd

Check = Callable[[], None]


def arrays_of(*shape: int, seed: int = 0) -> list[np.ndarray]:
    """What each rank contributes, in the order of ranks."""
    return [
        np.random.default_rng([seed, rank]).uniform(0.5, 1.5, shape).astype(np.float32)
        for rank in range(hvd.size())
    ]


def same(got: jax.Array, want: np.ndarray) -> None:
    np.testing.assert_allclose(np.asarray(got), want, rtol=1e-5, atol=1e-5)


def tensors_are_on_the_gpu() -> None:
    print(f"rank {hvd.rank()} computes on {jax.devices()[0]}", flush=True)
    if os.environ.get("JAX_PLATFORMS") != "cpu":
        assert jax.default_backend() == "gpu", jax.default_backend()


def eager() -> None:
    for elements in (1, 7, 300_001):
        each = arrays_of(elements, seed=elements)
        mine = jnp.asarray(each[hvd.rank()])
        same(hvd.allreduce(mine, op=hvd.Sum), np.sum(each, axis=0))
        same(hvd.allreduce(mine), np.mean(each, axis=0))
        same(hvd.allgather(mine), np.concatenate(each))
        same(hvd.broadcast(mine, hvd.size() - 1), each[-1])
        same(mine, each[hvd.rank()])


def compiled() -> None:
    """Between operations of XLA that feed a collective and use its result at once."""

    @jax.jit
    def program(x: jax.Array) -> tuple[jax.Array, jax.Array]:
        for _ in range(3):
            x = hvd.allreduce(jnp.sin(x), op=hvd.Sum)
        return x, hvd.allgather(2 * x)

    each = arrays_of(1 << 20, seed=3)
    want = [x.astype(np.float64) for x in each]
    for _ in range(3):
        want = [np.sum(np.sin(want), axis=0)] * hvd.size()
    for _ in range(20):
        got, gathered = program(jnp.asarray(each[hvd.rank()]))
        np.testing.assert_allclose(np.asarray(got), want[0], rtol=1e-4, atol=1e-4)
        np.testing.assert_array_equal(gathered, np.tile(2 * np.asarray(got), hvd.size()))


def a_tree_of_gradients() -> None:
    shapes = {"a": (3,), "b": (), "c": (257, 33), "d": (1000, 1000)}
    each = {name: arrays_of(*shape, seed=len(name)) for name, shape in shapes.items()}
    mine = {name: jnp.asarray(arrays[hvd.rank()]) for name, arrays in each.items()}
    for reduce in (hvd.allreduce, jax.jit(hvd.allreduce)):
        for name, got in reduce(mine).items():
            same(got, np.mean(each[name], axis=0))


def compression() -> None:
    """A codec gives the results, and keeps the memory, that it does on the processor."""
    processor = jax.devices("cpu")[0]
    each = {"w": arrays_of(100, 333, seed=9)[hvd.rank()]}
    identity = SimpleNamespace(init=lambda params: (), update=lambda updates, *rest: (updates, ()))
    for codec in ("int8", "sign"):
        found = []
        for where in (processor, jax.devices()[0]):
            optimizer = hvd.distributed(identity, compression=getattr(hvd.Compression, codec)())
            gradients = jax.device_put(each, where)
            state = optimizer.init(gradients)
            for _ in range(3):
                reduced, state = optimizer.update(gradients, state)
            found.append([np.asarray(leaf) for leaf in jax.tree_util.tree_leaves((reduced, state))])
        for host, device in zip(*found, strict=True):
            np.testing.assert_array_equal(device, host)


def training() -> None:
    """Two steps on each rank's part of a batch are two steps on the batch."""
    try:
        import optax
    except ImportError as missing:
        print(f"training is skipped: {missing}", flush=True)
        return
    data = np.random.default_rng(1).normal(size=(8 * hvd.size(), 16)).astype(np.float32)
    start = {"w": jnp.asarray(np.random.default_rng(2).normal(size=(16, 4)), jnp.float32) / 4}

    def loss(params: dict[str, jax.Array], batch: jax.Array) -> jax.Array:
        return jnp.mean(jnp.tanh(batch @ params["w"]) ** 2)

    def trained(optimizer: optax.GradientTransformation, batch: np.ndarray) -> np.ndarray:
        @jax.jit
        def step(params, state):  # type: ignore[no-untyped-def]
            updates, state = optimizer.update(jax.grad(loss)(params, batch), state, params)
            return optax.apply_updates(params, updates), state

        params, state = start, optimizer.init(start)
        for _ in range(2):
            params, state = step(params, state)
        return np.asarray(params["w"])

    alone = trained(optax.sgd(0.1, momentum=0.9), data)
    mine = np.split(data, hvd.size())[hvd.rank()]
    together = trained(hvd.distributed(optax.sgd(0.1, momentum=0.9)), mine)
    np.testing.assert_allclose(together, alone, rtol=1e-3, atol=1e-4)


def speed() -> None:
    """No check: what a compiled allreduce of 100 MB takes."""
    program = jax.jit(lambda x: hvd.allreduce(x, op=hvd.Sum) * 0.5)
    x = jnp.ones(25_000_000)
    times = []
    for _ in range(10):
        jax.block_until_ready(x)
        began = time.perf_counter()
        x = jax.block_until_ready(program(x))
        times.append(1000 * (time.perf_counter() - began))
    if hvd.rank() == 0:
        print(f"a compiled allreduce of 100 MB takes {np.median(times):.2f} ms", flush=True)


CHECKS: tuple[Check, ...] = (
    tensors_are_on_the_gpu,
    eager,
    compiled,
    a_tree_of_gradients,
    compression,
    training,
    speed,
)


def main() -> int:
    if "--hosts" in sys.argv:
        pretend_hosts()
    hvd.init()
    if not all_right(hvd.rank(), [(check.__name__, check) for check in CHECKS]):
        return 1
    hvd.shutdown()
    return 0


if __name__ == "__main__":
    sys.exit(main())
