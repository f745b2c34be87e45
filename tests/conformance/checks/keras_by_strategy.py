"""hvd.DistributedOptimizer(strategy=...) of Keras 3 takes the ways that the strategy names, on each
of its backends."""

from __future__ import annotations

from typing import Any

import numpy as np

from checks import check
from checks.here import Here, raises
from checks.keras_here import contents, fit, hvd, jit_for_conditions, keras, model, own


def sgd(**options: Any) -> Any:
    return keras.optimizers.SGD(0.1, **options)


def trained(here: Here, optimizer: Any) -> Any:
    net = model()
    fit(net, optimizer, *own(here), jit_compile=jit_for_conditions())
    return net


def same(got: Any, want: Any) -> None:
    for mine, theirs in zip(contents(got.weights), contents(want.weights), strict=True):
        np.testing.assert_array_equal(mine, theirs)


@check(seconds=60)
def a_large_batch_takes_the_place_of_the_optimizer(here: Here) -> None:
    schedule = keras.optimizers.schedules.ExponentialDecay(0.1, 10, 0.9)
    common = {"momentum": 0.8, "nesterov": True, "weight_decay": 0.01, "clipnorm": 1.0}
    strategy = hvd.Strategy(large_batch={"name": "lars", "trust": 0.02})
    got = trained(here, hvd.DistributedOptimizer(sgd(**common), strategy=strategy))
    want = trained(here, hvd.DistributedOptimizer(hvd.LARS(0.1, trust=0.02, **common)))
    assert isinstance(got.optimizer, hvd.LARS)
    same(got, want)
    if not hasattr(keras.optimizers, "Lamb"):
        return
    adam = keras.optimizers.Adam(schedule, weight_decay=0.01)
    got = trained(here, hvd.DistributedOptimizer(adam, strategy=hvd.Strategy(large_batch="lamb")))
    lamb = keras.optimizers.Lamb(schedule, epsilon=1e-7, weight_decay=0.01)
    same(got, trained(here, hvd.DistributedOptimizer(lamb)))


@check()
def what_keras_does_not_have_is_refused(here: Here) -> None:
    def refused(words: str, optimizer: Any = None, **parts: Any) -> None:
        with raises(ValueError, words):
            hvd.DistributedOptimizer(optimizer or sgd(), strategy=hvd.Strategy(**parts))

    refused("hvdlite.keras: an optimizer has no hold on the layers", sufficient_factors="auto")
    refused("local.overlap of the strategy is not possible in hvdlite.keras",
            local={"name": "diloco", "overlap": 3})  # fmt: skip
    adam = keras.optimizers.Adam(0.1)
    refused("the place of SGD, and the optimizer is Adam", adam, large_batch="lars")
    refused("momentum would count twice", sgd(momentum=0.9), compression="dgc")
    distributed = hvd.DistributedOptimizer(sgd())
    refused("DistributedOptimizer already", distributed, large_batch="lars")
