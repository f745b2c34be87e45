"""Compression with memory in fit(), compiled or not."""

from __future__ import annotations

import tempfile

import numpy as np

from checks import check
from checks.compressors import METHODS as OF_EVERY_FRAMEWORK
from checks.here import Here
from checks.keras_here import (
    EACH,
    contents,
    equal_everywhere,
    fit,
    hvd,
    jit_modes,
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
