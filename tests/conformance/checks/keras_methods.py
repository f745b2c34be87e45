"""Compression with memory in fit(), compiled or not."""

from __future__ import annotations

import tempfile

import numpy as np

import hvdlite
from checks import check
from checks.choosing import on_a_slow_network
from checks.compressors import METHODS as OF_EVERY_FRAMEWORK
from checks.here import Here, raises
from checks.keras_here import (
    EACH,
    FEATURES,
    contents,
    equal_everywhere,
    fit,
    hvd,
    jit_modes,
    jit_modes_for_conditions,
    keras,
    model,
    own,
)

METHODS = OF_EVERY_FRAMEWORK | {
    "topk": lambda: hvd.Compression.topk(0.2),
    "dgc": lambda: hvd.Compression.dgc(0.2, momentum=0.9),
}


@check(method=tuple(METHODS), seconds=60)
def training_leaves_all_ranks_with_the_same_weights(here: Here, method: str) -> None:
    for jit in jit_modes():
        compression = METHODS[method]()
        net = model()
        before = contents(net.weights)
        optimizer = hvd.DistributedOptimizer(keras.optimizers.SGD(0.05), compression=compression)
        fit(net, optimizer, *own(here), jit_compile=jit)
        equal_everywhere(here, contents(net.weights))
        moved = [abs(a - b).max() for a, b in zip(contents(net.weights), before, strict=True)]
        assert max(moved) > 0
        if here.size > 1:
            memory = compression.state_dict()["memory"]
            kept = [abs(np.asarray(v)).max() for state in memory.values() for v in state.values()]
            assert max(kept) > 0, memory


@check(min_ranks=2, seconds=30)
def dense_training_is_what_density_1_gives(here: Here) -> None:
    compression = hvd.Compression.topk(1.0)
    nets = []
    for options in ({}, {"compression": compression}):
        net = model()
        optimizer = hvd.DistributedOptimizer(keras.optimizers.SGD(0.1), **options)
        fit(net, optimizer, *own(here))
        nets.append(contents(net.weights))
    for a, b in zip(*nets, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-5)


@check(masking=(False, True), seconds=60)
def dgc_of_everything_is_sgd(here: Here, masking: bool) -> None:
    """With momentum, unless masking ends that of all elements in each step."""
    compression = hvd.Compression.dgc(1.0, momentum=0.9, masking=masking)
    nets = []
    for momentum, options in ((0.0, {"compression": compression}), (0.0 if masking else 0.9, {})):
        net = keras.Sequential([keras.Input((FEATURES,)), keras.layers.Dense(2, use_bias=False)])
        net.set_weights([np.linspace(-1, 1, 2 * FEATURES, dtype="float32").reshape(FEATURES, 2)])
        optimizer = keras.optimizers.SGD(0.05, momentum=momentum)
        fit(net, hvd.DistributedOptimizer(optimizer, **options), *own(here))
        nets.append(contents(net.weights))
    for a, b in zip(*nets, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-5)
    equal_everywhere(here, nets[0])


@check()
def momentum_beside_dgc_is_refused(here: Here) -> None:
    for optimizer in (keras.optimizers.SGD(0.1, momentum=0.9), keras.optimizers.Adam(0.1)):
        with raises(ValueError, "momentum would count twice"):
            hvd.DistributedOptimizer(optimizer, compression=hvd.Compression.dgc())


@check(min_ranks=2, seconds=60)
def auto_compresses_compiled_or_not(here: Here) -> None:
    for jit in jit_modes():
        compression = on_a_slow_network(
            hvd.Compression.auto([hvd.Compression.int8(), hvd.Compression.sign(skip="*")])
        )
        net = model()
        optimizer = hvd.DistributedOptimizer(keras.optimizers.SGD(0.05), compression=compression)
        before = hvdlite.metrics()["bytes_encoded"]
        fit(net, optimizer, *own(here), jit_compile=jit)
        assert hvdlite.metrics()["bytes_encoded"] > before
        equal_everywhere(here, contents(net.weights))


@check(min_ranks=2, seconds=30)
def auto_leaves_one_host_alone(here: Here) -> None:
    if hvd.local_size() == hvd.size():
        compression = hvd.Compression.auto()
        net = model()
        optimizer = hvd.DistributedOptimizer(keras.optimizers.SGD(0.05), compression=compression)
        before = hvdlite.metrics()["bytes_encoded"]
        fit(net, optimizer, *own(here))
        assert "no compression; all ranks are on one host" in compression.said
        assert hvdlite.metrics()["bytes_encoded"] == before


@check(min_ranks=2, seconds=60)
def onebit_adam_is_adam_until_it_freezes(here: Here) -> None:
    for jit in jit_modes_for_conditions():
        nets = []
        for optimizer in (
            hvd.OneBitAdam(0.01, weight_decay=0.1, freeze_step=100),
            hvd.DistributedOptimizer(keras.optimizers.Adam(0.01, weight_decay=0.1)),
        ):
            net = model()
            fit(net, optimizer, *own(here), jit_compile=jit)
            nets.append(contents(net.weights))
        for a, b in zip(*nets, strict=True):
            np.testing.assert_allclose(a, b, atol=1e-6)


@check(min_ranks=2, seconds=60)
def onebit_adam_sends_signs_after_it_has_frozen(here: Here) -> None:
    for jit in jit_modes_for_conditions():
        optimizer, net = hvd.OneBitAdam(0.01, freeze_step=4), model()
        before = hvdlite.metrics()["bytes_encoded"]
        fit(net, optimizer, *own(here), epochs=1, jit_compile=jit)  # 4 steps
        assert hvdlite.metrics()["bytes_encoded"] == before
        weights, velocities = contents(net.weights), contents(optimizer.velocities)
        net.fit(*own(here), batch_size=EACH, shuffle=False, verbose=0)
        assert hvdlite.metrics()["bytes_encoded"] > before
        equal_everywhere(here, contents(net.weights))
        for a, b in zip(contents(optimizer.velocities), velocities, strict=True):
            np.testing.assert_array_equal(a, b)
        moved = [abs(a - b).max() for a, b in zip(contents(net.weights), weights, strict=True)]
        assert min(moved) > 0


@check(min_ranks=2, seconds=30)
def a_file_has_onebit_adam_without_its_memory(here: Here) -> None:
    optimizer, net = hvd.OneBitAdam(0.01, freeze_step=2), model()
    fit(net, optimizer, *own(here), jit_compile=False)
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/net.keras"
        net.save(path)
        loaded = keras.models.load_model(path)
    assert type(loaded.optimizer) is type(optimizer)
    assert loaded.optimizer.get_config() == optimizer.get_config()
    for a, b in zip(loaded.optimizer.momentums, optimizer.momentums, strict=True):
        np.testing.assert_array_equal(contents([a])[0], contents([b])[0])
    loaded.fit(*own(here), batch_size=EACH, shuffle=False, verbose=0)
    equal_everywhere(here, contents(loaded.weights))
    with raises(ValueError, "freeze_step=0"):
        hvd.OneBitAdam(freeze_step=0)
