"""Keras: what a distributed optimizer is, and what it refuses."""

from __future__ import annotations

from typing import Any

from checks import check
from checks.here import Here, raises
from checks.keras_here import equal_everywhere, fit, hvd, keras, model, own, state


@check(seconds=30)
def it_is_the_same_optimizer_of_a_subclass_with_the_same_name(here: Here) -> None:
    plain = keras.optimizers.Adam(0.125)
    base = type(plain)
    optimizer = hvd.DistributedOptimizer(plain)
    assert optimizer is plain and isinstance(optimizer, base) and type(optimizer) is not base
    assert (
        type(optimizer).__name__ == base.__name__ and type(optimizer).__module__ == base.__module__
    )
    config = optimizer.get_config()
    for copy in (optimizer.from_config(dict(config)), type(optimizer).from_config(dict(config))):
        assert copy.get_config() == config and type(copy) is type(optimizer)
    assert type(keras.optimizers.Adam()) is base, "the class that was wrapped is as it was"
    with raises(ValueError, "already"):
        hvd.DistributedOptimizer(optimizer)


@check(seconds=30)
def a_copy_by_from_config_reduces_as_well(here: Here) -> None:
    optimizer = hvd.DistributedOptimizer(keras.optimizers.SGD(0.1))
    net = model()
    fit(net, type(optimizer).from_config(optimizer.get_config()), *own(here))
    equal_everywhere(here, state(net))


@check(seconds=30)
def arguments_that_cannot_be_are_refused(here: Here) -> None:
    for options, words in (
        ({"op": hvd.Min}, "only hvd.Average and hvd.Sum"),
        ({"op": hvd.Adasum}, "only hvd.Average and hvd.Sum"),
        ({"op": hvd.Sum, "gradient_predivide_factor": 2.0}, "gradient_predivide_factor"),
        ({"backward_passes_per_step": 0}, "backward_passes_per_step"),
        ({"groups": "two"}, "groups"),
        ({"groups": -1}, "groups"),
        ({"compression": _Sending()}, "communicate()"),
    ):
        with raises(ValueError, words):
            hvd.DistributedOptimizer(keras.optimizers.SGD(), **options)
    with raises(TypeError, "expected an optimizer"):
        hvd.DistributedOptimizer("sgd")
    with raises(ValueError, "local_layers"):
        hvd.PartialDistributedOptimizer(keras.optimizers.SGD(), local_layers="dense")


class _Sending:
    def compress(self, tensor: Any) -> Any:
        return tensor, None

    def decompress(self, tensor: Any, ctx: Any) -> Any:
        return tensor

    def communicate(self, payload: Any, name: Any, op: Any, process_set: Any) -> Any:
        raise AssertionError("never called")
