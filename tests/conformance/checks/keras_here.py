"""For the checks of hvdlite.keras: Keras and hvdlite.keras, loaded when a check runs; models, data,
training.

pytest lists the checks without loading a framework, and the environment of a job decides which one
it gets: KERAS_BACKEND, or TF_USE_LEGACY_KERAS=1 for tf_keras.
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import Any

import numpy as np

import hvdlite
from checks.here import Here


class _Lazy:
    def __init__(self, load: Any) -> None:
        self._load = load

    def __getattr__(self, name: str) -> Any:
        return getattr(self._load(), name)


def legacy() -> bool:
    return os.environ.get("TF_USE_LEGACY_KERAS") == "1"


def backend() -> str:
    return "tensorflow" if legacy() else os.environ["KERAS_BACKEND"]


keras: Any = _Lazy(lambda: import_module("tf_keras" if legacy() else "keras"))
hvd: Any = _Lazy(lambda: import_module("hvdlite.keras"))

# The tag of what is tried with three ranks, too.
MORE_RANKS = ("three",)

FEATURES, CLASSES, EACH, STEPS = 6, 2, 4, 4  # EACH: rows of a rank in a step


def data(here: Here) -> tuple[np.ndarray, np.ndarray]:
    """The same on all ranks: x and y of STEPS global batches."""
    random = np.random.default_rng(7)
    rows = STEPS * here.size * EACH
    return (
        random.standard_normal((rows, FEATURES)).astype("float32"),
        random.standard_normal((rows, CLASSES)).astype("float32"),
    )


def part(here: Here, array: np.ndarray) -> np.ndarray:
    """This rank's rows: in order, its part of each global batch."""
    return array.reshape(-1, here.size, EACH, *array.shape[1:])[:, here.rank].reshape(
        -1, *array.shape[1:]
    )


def own(here: Here, steps: int = STEPS) -> tuple[np.ndarray, np.ndarray]:
    """This rank's x and y, of the first so many steps."""
    x, y = (part(here, array)[: steps * EACH] for array in data(here))
    return x, y


def model(seed: int = 3, policy: str | None = None, units: int = 5) -> Any:
    """A small network; the same for the same seed."""
    layers = keras.layers
    random = np.random.default_rng(seed)
    inputs = keras.Input((FEATURES,))
    hidden = layers.Dense(units, activation="tanh", dtype=policy)(inputs)
    net = keras.Model(inputs, layers.Dense(CLASSES, dtype=policy)(hidden))
    if policy is not None and not legacy():
        net.dtype_policy = policy
    net.set_weights(
        [random.standard_normal(w.shape).astype("float32") * 0.5 for w in net.get_weights()]
    )
    return net


def jit_modes() -> tuple[bool, ...]:
    # Keras' jit on torch is torch.compile(); hvdlite's part of a step is not in the graph then, and
    # nothing is different. The XLA of TensorFlow before 2.18 takes no custom calls.
    if backend() == "torch" or (
        backend() == "tensorflow" and import_module("hvdlite.tensorflow.xla").problem()
    ):
        return (False,)
    return (False, True)


def jit_for_conditions() -> bool:
    """JAX compiles a condition anew in each step that is not compiled as a whole."""
    return backend() == "jax"


def jit_modes_for_conditions() -> tuple[bool, ...]:
    return (True,) if jit_for_conditions() else jit_modes()


def fit(
    net: Any,
    optimizer: Any,
    x: Any,
    y: Any = None,
    *,
    epochs: int = 2,
    callbacks: Any = (),
    **more: Any,
) -> Any:
    """Compiles and trains; returns the history."""
    how = {
        name: more.pop(name)
        for name in ("loss", "metrics", "jit_compile", "loss_weights")
        if name in more
    }
    net.compile(optimizer=optimizer, **{"loss": "mse", "jit_compile": False, **how})
    if y is not None:
        more = {"batch_size": EACH, **more, "y": y}
    return net.fit(
        x, epochs=epochs, shuffle=False, callbacks=list(callbacks), **{"verbose": 0} | more
    ).history


def together(
    here: Here,
    optimizer: Any,
    *,
    net: Any = None,
    options: dict[str, Any] | None = None,
    **more: Any,
) -> Any:
    """The network after training on all ranks."""
    net = net or model()
    fit(net, hvd.DistributedOptimizer(optimizer, **(options or {})), *own(here), **more)
    return net


def alone(here: Here, optimizer: Any, seed: int = 3) -> list[np.ndarray]:
    """The weights after training in this process on the global batches. Many checks ask for the
    same ones."""
    config = {k: v for k, v in optimizer.get_config().items() if k != "name"}
    key = (type(optimizer).__module__, type(optimizer).__name__, repr(config), seed)
    if key not in _alone:
        net = model(seed)
        fit(net, optimizer, *data(here), batch_size=EACH * here.size)
        _alone[key] = contents(net.weights)
    return _alone[key]


_alone: dict[Any, list[np.ndarray]] = {}


def contents(variables: Any) -> list[np.ndarray]:
    """Of variables and tensors."""
    return [np.asarray(v.numpy() if legacy() else keras.ops.convert_to_numpy(v)) for v in variables]


def state(net: Any) -> list[np.ndarray]:
    """Weights and slots."""
    variables = net.optimizer.variables
    return contents(net.weights) + contents(variables() if callable(variables) else variables)


def equal_everywhere(here: Here, arrays: list[np.ndarray]) -> None:
    """Bit by bit."""
    for array in arrays:
        here.saw(np.asarray(array))
    here.settle()


def same(here: Here, got: Any, want: list[np.ndarray], tolerance: float = 2e-6) -> None:
    """Bit-equal on all ranks, and the weights of a single process but for rounding."""
    equal_everywhere(here, state(got))
    for a, b in zip(contents(got.weights), want, strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=tolerance)


# ---- what Keras 3 and both generations of tf_keras' optimizers have to do


def passes_add_up(here: Here, sgd: Any, average: bool, **how: Any) -> None:
    """Two passes are one step of a process with twice the rows."""
    want = model()
    whole = data(here)
    fit(want, sgd(0.1, momentum=0.9), *whole, batch_size=2 * EACH * here.size, epochs=3)
    options = {"backward_passes_per_step": 2, "average_aggregated_gradients": average}
    optimizer = sgd(0.1 if average else 0.05, momentum=0.9)
    got = together(here, optimizer, options=options, epochs=3, **how)
    same(here, got, contents(want.weights))
    assert int(contents([got.optimizer.iterations])[0]) == 3 * STEPS, "each pass counts"
    assert int(contents([got.optimizer._agg_helper.counter])[0]) == 0


def all_skip_an_overflow(here: Here, net: Any, x: np.ndarray, y: np.ndarray) -> None:
    """That one rank has, in half precision, in the next step of fit()."""
    weights = contents(net.weights)
    equal_everywhere(here, state(net))
    if here.rank == here.size - 1:
        x = x.copy()
        x[0, 0] = 1e30
    net.fit(x[:EACH], y[:EACH], batch_size=EACH, verbose=0)
    equal_everywhere(here, state(net))
    for a, b in zip(contents(net.weights), weights, strict=True):
        np.testing.assert_array_equal(a, b)


def momentum_follows_the_rate(here: Here, sgd: Any, velocities: Any) -> None:
    """By hand: the velocity is scaled with the rate, once."""
    schedule = hvd.callbacks.LearningRateScheduleCallback(0.1, lambda epoch: 10.0**-epoch)
    got = together(here, sgd(0.1, momentum=0.9), callbacks=[schedule])
    want, single, (x, y) = model(), sgd(0.1, momentum=0.9), data(here)
    fit(want, single, x, y, batch_size=EACH * here.size, epochs=1)
    single.learning_rate = 0.01
    for velocity in velocities(single, want.trainable_variables):
        velocity.assign(velocity * 0.1)
    want.fit(x, y, batch_size=EACH * here.size, shuffle=False, verbose=0)
    same(here, got, contents(want.weights))


def directory(here: Here) -> str:
    """One that all ranks share."""
    import tempfile

    return str(
        hvdlite.broadcast_object(
            tempfile.mkdtemp(prefix="hvdlite-keras-") if here.rank == 0 else None
        )
    )
