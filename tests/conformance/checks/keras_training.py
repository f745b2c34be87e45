"""Keras: training with DistributedOptimizer gives the weights of a single process on the global
batch."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from checks import check, needs
from checks.here import Here, raises
from checks.keras_here import (
    EACH,
    FEATURES,
    MORE_RANKS,
    STEPS,
    all_skip_an_overflow,
    alone,
    backend,
    contents,
    data,
    equal_everywhere,
    fit,
    hvd,
    jit_for_conditions,
    jit_modes,
    jit_modes_for_conditions,
    keras,
    legacy,
    model,
    own,
    part,
    passes_add_up,
    same,
    state,
    together,
)  # fmt: skip


def make(kind: str) -> Any:
    optimizers = keras.optimizers
    if kind == "momentum":
        return optimizers.SGD(0.1, momentum=0.9, nesterov=True, clipnorm=0.5)
    if kind == "AdamW":
        return optimizers.Adam(0.01, weight_decay=0.1)
    return optimizers.SGD(0.1)


@check(optimizer=("SGD", "momentum", "AdamW"), seconds=60, tags=MORE_RANKS)
def with_each_optimizer_jitted_or_not(here: Here, optimizer: str) -> None:
    for jit in jit_modes():
        # Adam divides small numbers by small numbers.
        tolerance = 1e-4 if optimizer == "AdamW" else 2e-6
        same(
            here,
            together(here, make(optimizer), jit_compile=jit),
            alone(here, make(optimizer)),
            tolerance,
        )


@check(how=("num_groups", "lists", "predivide", "fp16", "own compressor"), seconds=30)
def with_options_that_change_the_way_but_not_the_result(here: Here, how: str) -> None:
    class Halving:
        def compress(self, tensor: Any) -> Any:
            return tensor * 0.5, None

        def decompress(self, tensor: Any, ctx: Any) -> Any:
            return tensor * 2.0

    net = model()
    weights = net.trainable_weights
    options: dict[str, Any] = {
        "lists": {"groups": [[weights[0], weights[3]], [weights[1]]]},
        "num_groups": {"num_groups": 3},
        "predivide": {"gradient_predivide_factor": 4.0},
        "fp16": {"compression": hvd.Compression.fp16},
        "own compressor": {"compression": Halving()},
    }[how]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        got = together(here, make("SGD"), net=net, options=options)
    same(here, got, alone(here, make("SGD")), 0.05 if how == "fp16" else 2e-6)


@check(seconds=30)
def with_sums(here: Here) -> None:
    got = together(here, keras.optimizers.SGD(0.1 / here.size), options={"op": hvd.Sum})
    same(here, got, alone(here, make("SGD")))


@check(average=(False, True), seconds=60)
def with_gradients_that_add_up_over_several_passes(here: Here, average: bool) -> None:
    for jit in jit_modes_for_conditions():
        passes_add_up(here, keras.optimizers.SGD, average, jit_compile=jit)


@check(seconds=30)
def a_step_between_passes_changes_no_weight(here: Here) -> None:
    net = model()
    before = contents(net.weights)
    optimizer = hvd.DistributedOptimizer(make("momentum"), backward_passes_per_step=3)
    fit(net, optimizer, *own(here, 1), epochs=1)
    assert int(contents([optimizer._agg_helper.counter])[0]) == 1
    for a, b in zip(contents(net.weights), before, strict=True):
        np.testing.assert_array_equal(a, b)


@check(min_ranks=2, seconds=30)
def layers_that_are_local_keep_their_gradients(here: Here) -> None:
    def train(scale: bool, how: str) -> tuple[list[np.ndarray], Any]:
        net = model()
        if how == "layer":
            optimizer = hvd.PartialDistributedOptimizer(
                make("SGD"), local_layers=net.layers[1], scale_local_gradients=scale
            )
        else:
            optimizer = hvd.DistributedOptimizer(make("SGD"), scale_local_gradients=scale)
            for variable in net.layers[1].trainable_variables:
                optimizer.register_local_var(variable)
        fit(net, optimizer, *own(here, 1), epochs=1)
        return contents(net.layers[1].weights), net

    before = contents(model().layers[1].weights)
    plain = model()
    fit(plain, make("SGD"), *own(here, 1), epochs=1)
    steps = [b - a for a, b in zip(before, contents(plain.layers[1].weights), strict=True)]
    for how in ("layer", "variable"):
        for scale in (True, False):
            local, net = train(scale, how)
            equal_everywhere(here, contents(net.layers[2].weights))
            for got, start, step in zip(local, before, steps, strict=True):
                np.testing.assert_allclose(
                    got, start + step / (here.size if scale else 1), atol=1e-6
                )
            everyones = hvd.allgather_object(local[0].tobytes())
            assert len(set(everyones)) == here.size


@check(min_ranks=2, seconds=30)
def a_process_set_trains_by_itself(here: Here) -> None:
    ranks = list(range(here.size - 1))
    process_set = hvd.add_process_set(ranks)
    got = together(here, make("SGD"), options={"process_set": process_set})
    want = model()
    x, y = data(here)
    if here.rank in ranks:

        def of_the_set(array: np.ndarray) -> np.ndarray:
            each = array.reshape(-1, here.size, EACH, array.shape[1])
            return each[:, : len(ranks)].reshape(-1, array.shape[1])

        fit(want, make("SGD"), of_the_set(x), of_the_set(y), batch_size=EACH * len(ranks))
    else:
        fit(want, make("SGD"), *own(here))
    for a, b in zip(contents(got.weights), contents(want.weights), strict=True):
        np.testing.assert_allclose(a, b, atol=2e-6)
    hvd.remove_process_set(process_set)


@check(seconds=60, tags=MORE_RANKS)
def mixed_precision_takes_or_skips_a_step_on_all_ranks(here: Here) -> None:
    policies = keras.mixed_precision if legacy() else keras.config
    set_policy = policies.set_global_policy if legacy() else policies.set_dtype_policy
    set_policy("mixed_float16")
    try:
        for jit in jit_modes():
            net = model()
            optimizer = hvd.DistributedOptimizer(keras.optimizers.SGD(0.1, momentum=0.9))
            assert legacy() or isinstance(optimizer, keras.mixed_precision.LossScaleOptimizer)
            x, y = own(here)
            steps = 1 if jit_for_conditions() and not jit else STEPS
            fit(net, optimizer, x[: steps * EACH], y[: steps * EACH], jit_compile=jit)
            assert legacy() or net.optimizer is optimizer
            assert any(
                np.abs(a - b).max() > 1e-4
                for a, b in zip(contents(net.weights), contents(model().weights), strict=True)
            )
            all_skip_an_overflow(here, net, x, y)
    finally:
        set_policy("float32")


@check(seconds=30)
def a_distributed_optimizer_inside_loss_scaling_is_refused(here: Here) -> None:
    if legacy():
        return  # there it is the right order
    net = model()
    inner = hvd.DistributedOptimizer(make("SGD"))
    with raises(
        ValueError, "hvd.DistributedOptimizer(keras.optimizers.LossScaleOptimizer(optimizer))"
    ):
        fit(net, keras.mixed_precision.LossScaleOptimizer(inner), *own(here))


@check(seconds=30)
def variables_without_a_gradient(here: Here) -> None:
    """A gradient that some ranks miss counts as zeros; one that all miss stays missing. On torch
    that can happen."""
    needs(backend() == "torch", "torch: elsewhere every variable has a gradient")
    variables = [keras.Variable(np.ones(3, "float32"), name=f"v{i}") for i in range(3)]
    optimizer = hvd.DistributedOptimizer(keras.optimizers.SGD(1.0, weight_decay=0.5))
    gradients = [keras.ops.ones(3), None if here.rank else keras.ops.ones(3), None]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        optimizer.apply(gradients, variables)
    missing = [str(w.message) for w in caught if "Gradients do not exist" in str(w.message)]
    assert len(missing) == 1 and "'v2'" in missing[0] and "'v1'" not in missing[0]
    for value, expected in zip(
        contents(variables), (0.5 - 1, 0.5 - 1 / here.size, 1.0), strict=True
    ):
        np.testing.assert_allclose(value, np.full(3, expected, "float32"), rtol=1e-6)


@check(sparse_as_dense=(False, True), seconds=30)
def an_embedding(here: Here, sparse_as_dense: bool) -> None:
    """Whose gradients are sparse on TensorFlow."""

    def make_model() -> Any:
        net = keras.Sequential(
            [
                keras.Input((FEATURES,), dtype="int32"),
                keras.layers.Embedding(11, 3),
                keras.layers.Flatten(),
                keras.layers.Dense(1),
            ]
        )
        random = np.random.default_rng(1)
        net.set_weights(
            [random.standard_normal(w.shape).astype("float32") for w in net.get_weights()]
        )
        return net

    words = np.random.default_rng(5).integers(0, 11, (STEPS * here.size * EACH, FEATURES))
    y = np.cos(words.sum(axis=1, keepdims=True)).astype("float32")
    got, want = make_model(), make_model()
    optimizer = hvd.DistributedOptimizer(make("SGD"), sparse_as_dense=sparse_as_dense)
    fit(got, optimizer, part(here, words), part(here, y))
    fit(want, make("SGD"), words, y, batch_size=EACH * here.size)
    same(here, got, contents(want.weights), 1e-5)


@check(seconds=30)
def two_optimizers_in_one_program(here: Here) -> None:
    nets = [model(seed) for seed in (1, 2)]
    x, y = own(here)
    for net in nets:
        net.compile(optimizer=hvd.DistributedOptimizer(make("momentum")), loss="mse")
    for _ in range(3):
        for net in nets:
            net.train_on_batch(x, y)
    for net in nets:
        equal_everywhere(here, state(net))
