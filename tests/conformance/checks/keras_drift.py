"""Keras: the drift guard of the callbacks. The other checks train under it as well
(test_keras.py)."""

from __future__ import annotations

from typing import Any

import numpy as np

from checks import check
from checks.drifting import odd_one, told_once
from checks.here import Here, raises
from checks.keras_here import fit, hvd, keras, model, own
from hvdlite.exceptions import MismatchError


def _changing(here: Here, rank: int, at: int) -> Any:
    """On one rank a weight changes after a batch."""

    class Change(keras.callbacks.Callback):  # type: ignore[misc, name-defined]
        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            if batch == at and here.rank == rank:
                bias = self.model.layers[-1].bias
                bias.assign(bias + np.float32(2.0**-20))

    return Change()


@check(min_ranks=2, seconds=60)
def a_weight_that_changes_on_one_rank_is_found(here: Here) -> None:
    first = hvd.callbacks.BroadcastGlobalVariablesCallback(0)
    optimizer = hvd.DistributedOptimizer(keras.optimizers.SGD(0.1, momentum=0.9))
    odd = here.size - 1
    with raises(MismatchError, "bias", *odd_one(here, odd)):
        changing = _changing(here, odd, at=1)
        fit(model(), optimizer, *own(here), callbacks=[first, changing])


@check(min_ranks=2, seconds=60)
def numbers_that_are_finite_on_no_rank_are_told_with_the_first(here: Here) -> None:
    """By each rank's own loss, which is NaN one step before those of the others."""
    odd = here.size - 1

    class Break(keras.callbacks.Callback):  # type: ignore[misc, name-defined]
        def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
            if batch == 2 and here.rank == odd:
                kernel = self.model.layers[1].kernel
                kernel.assign(np.full(kernel.shape, np.nan, "float32"))

    first = hvd.callbacks.BroadcastGlobalVariablesCallback(0)
    optimizer = hvd.DistributedOptimizer(keras.optimizers.SGD(0.1, momentum=0.9))
    told_once(
        here,
        lambda: fit(model(), optimizer, *own(here), callbacks=[first, Break()]) and None,
        f"is not finite on all ranks since step 3, first on rank {odd} (found in step",
    )


@check(min_ranks=2, seconds=60)
def the_guard_alone_finds_a_forgotten_broadcast(here: Here) -> None:
    optimizer = hvd.DistributedOptimizer(keras.optimizers.SGD(0.1))
    guard = hvd.callbacks.DriftGuardCallback()
    with raises(MismatchError, "(and 3 more)"):
        fit(model(here.rank), optimizer, *own(here), callbacks=[guard])


@check(min_ranks=2, seconds=60)
def local_variables_may_differ(here: Here) -> None:
    net = model()
    bias = net.layers[-1].bias
    bias.assign(np.full(bias.shape, here.rank, "float32"))
    optimizer = hvd.DistributedOptimizer(keras.optimizers.SGD(0.0))
    guard = hvd.callbacks.DriftGuardCallback(local_variables=[bias])
    fit(net, optimizer, *own(here), callbacks=[guard])
    assert guard._guard.compared > 2

    net = model()
    optimizer = hvd.PartialDistributedOptimizer(
        keras.optimizers.SGD(0.1), local_layers=net.layers[-1]
    )
    guard = hvd.callbacks.BroadcastGlobalVariablesCallback(0)
    fit(net, optimizer, *own(here), callbacks=[guard])
    assert guard._guard.compared > 2
