"""Keras: the callbacks."""

from __future__ import annotations

import contextlib
import io
import os
import shutil
from typing import Any

import numpy as np

from checks import check
from checks.here import Here, raises
from checks.keras_here import (
    CLASSES,
    EACH,
    FEATURES,
    MORE_RANKS,
    STEPS,
    alone,
    contents,
    data,
    directory,
    equal_everywhere,
    fit,
    hvd,
    keras,
    model,
    momentum_follows_the_rate,
    own,
    same,
    state,
)  # fmt: skip


def _train(here: Here, net: Any, *callbacks: Any, optimizer: Any = None, **more: Any) -> Any:
    optimizer = optimizer or hvd.DistributedOptimizer(keras.optimizers.SGD(0.1, momentum=0.9))
    return fit(net, optimizer, *own(here), callbacks=callbacks, **more)


def _first_broadcast(root: int = 0, **more: Any) -> Any:
    return hvd.callbacks.BroadcastGlobalVariablesCallback(root, **more)


@check(seconds=30, tags=MORE_RANKS)
def ranks_that_start_differently_become_equal_before_the_first_step(here: Here) -> None:
    root = here.size - 1
    net = model(seed=100 + here.rank)
    _train(here, net, _first_broadcast(root))
    same(here, net, alone(here, keras.optimizers.SGD(0.1, momentum=0.9), seed=100 + root))


@check(min_ranks=2, seconds=30)
def the_optimizer_becomes_the_roots_as_well(here: Here) -> None:
    from hvdlite.keras.host import build, velocities_of

    net = model()
    optimizer = hvd.DistributedOptimizer(keras.optimizers.SGD(0.1, momentum=0.9))
    build(optimizer, net.trainable_variables)
    velocities = velocities_of(optimizer)
    assert velocities
    for velocity in velocities:
        velocity.assign(velocity + float(here.rank))
    _train(here, net, _first_broadcast(), optimizer=optimizer)
    same(here, net, alone(here, keras.optimizers.SGD(0.1, momentum=0.9)))


@check(seconds=30)
def models_that_are_not_built_yet_become_equal_after_the_first_step(here: Here) -> None:
    keras.utils.set_random_seed(50 + here.rank)
    net = keras.Sequential([keras.layers.Dense(5, activation="tanh"), keras.layers.Dense(CLASSES)])
    _train(here, net, _first_broadcast())
    equal_everywhere(here, state(net))


@check(min_ranks=2, seconds=30)
def a_model_that_only_the_root_has_built(here: Here) -> None:
    keras.utils.set_random_seed(60 + here.rank)
    net = keras.Sequential([keras.layers.Dense(5, activation="tanh"), keras.layers.Dense(CLASSES)])
    if here.rank == 0:
        net.build((None, FEATURES))  # as by loading weights into it
    _train(here, net, _first_broadcast())
    equal_everywhere(here, state(net))


@check(min_ranks=2, seconds=30)
def local_variables_stay_as_they_are(here: Here) -> None:
    net = model(seed=here.rank)
    bias = net.layers[1].bias
    bias.assign(np.full(bias.shape, here.rank, "float32"))
    local = _first_broadcast(local_variables=[bias])
    frozen = keras.optimizers.SGD(0.0)
    _train(here, net, local, optimizer=hvd.DistributedOptimizer(frozen), epochs=1)
    np.testing.assert_array_equal(contents([bias])[0], np.full(bias.shape, here.rank, "float32"))
    equal_everywhere(here, contents(net.layers[2].weights))
    with raises(ValueError, "local_variables must be variables"):
        _first_broadcast(local_variables=["bias"])


@check(min_ranks=2, seconds=30)
def dropout_is_not_the_same_on_all_ranks(here: Here) -> None:
    keras.utils.set_random_seed(70 + here.rank)
    net = keras.Sequential(
        [
            keras.Input((FEATURES,)),
            keras.layers.Dense(32),
            keras.layers.Dropout(0.5),
            keras.layers.Dense(CLASSES),
        ]
    )
    _train(here, net, _first_broadcast(), epochs=1)
    equal_everywhere(here, state(net))
    x = np.ones((1, FEATURES), "float32")
    head = keras.Sequential([keras.Input((FEATURES,)), *net.layers[-3:-1]])
    masks = hvd.allgather_object(np.asarray(head(x, training=True) == 0).tobytes())
    assert len(set(masks)) > 1


@check(min_ranks=2, seconds=30)
def ranks_with_different_numbers_of_steps_are_told_so(here: Here) -> None:
    steps = STEPS - (here.rank == 0)
    optimizer = hvd.DistributedOptimizer(keras.optimizers.SGD(0.1))
    with raises(
        ValueError, f"rank 0: {STEPS - 1}, rank 1: {STEPS}", f"steps_per_epoch={STEPS - 1}"
    ):
        fit(model(), optimizer, *own(here, steps), callbacks=[_first_broadcast()])


@check(min_ranks=2, seconds=30)
def ranks_with_different_models_are_told_so(here: Here) -> None:
    with raises(hvd.MismatchError, "have different variables", "here", "there"):
        _train(here, model(units=5 + here.rank), _first_broadcast())


@check(seconds=30)
def metrics_are_those_of_all_ranks(here: Here) -> None:
    seen: list[dict[str, float]] = []
    note = keras.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: seen.append(dict(logs)))
    average = hvd.callbacks.MetricAverageCallback()
    metrics = ["mae", "mse"]
    checked = own(here, 1)
    history = _train(
        here, model(), average, note, metrics=metrics, validation_data=checked, epochs=2
    )
    names = {name for name in history if name != "lr"}
    assert {"loss", "val_loss"} < names and len(names) >= 6
    everyones = hvd.allgather_object({name: history[name] for name in sorted(names)})
    assert everyones == [everyones[0]] * here.size
    assert [{k: v[i] for k, v in history.items()} for i in range(2)] == seen
    single = keras.optimizers.SGD(0.1, momentum=0.9)
    want = fit(model(), single, *data(here), batch_size=EACH * here.size, metrics=metrics)
    np.testing.assert_allclose(history["loss"], want["loss"], rtol=1e-5)


@check(min_ranks=2, seconds=30)
def metrics_that_only_some_ranks_have_are_named(here: Here) -> None:
    metrics = ["mae"] if here.rank == 0 else []
    with raises(hvd.MismatchError, "has the metrics"):
        _train(here, model(), hvd.callbacks.MetricAverageCallback(), metrics=metrics, epochs=1)


@check(seconds=30)
def all_ranks_stop_early_together(here: Here) -> None:
    stop = keras.callbacks.EarlyStopping(monitor="loss", min_delta=1e9, patience=1)
    history = _train(
        here,
        model(seed=here.rank),
        _first_broadcast(),
        hvd.callbacks.MetricAverageCallback(),
        stop,
        epochs=9,
    )
    assert hvd.allgather_object(len(history["loss"])) == [2] * here.size


@check(seconds=30)
def the_learning_rate_warms_up(here: Here) -> None:
    rates: list[float] = []

    class Watch(keras.callbacks.Callback):  # type: ignore[misc, name-defined]
        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            rates.append(float(contents([self.model.optimizer.learning_rate])[0]))

    warmup = hvd.callbacks.LearningRateWarmupCallback(initial_lr=0.4, warmup_epochs=2, verbose=1)
    history = _train(here, model(), warmup, Watch(), epochs=3)
    n = here.size
    expected = [0.4 / n * ((i + 1) / STEPS * (n - 1) / 2 + 1) for i in range(2 * STEPS)] + [
        0.4
    ] * STEPS
    np.testing.assert_allclose(rates, expected, rtol=1e-5)
    np.testing.assert_allclose(history["lr"], expected[STEPS - 1 :: STEPS], rtol=1e-5)


@check(seconds=30)
def the_learning_rate_follows_a_schedule_and_momentum_follows_it(here: Here) -> None:
    schedule = hvd.callbacks.LearningRateScheduleCallback
    history = _train(here, model(), schedule(0.1, 0.5, start_epoch=1, end_epoch=3), epochs=4)
    np.testing.assert_allclose(history["lr"], [0.1, 0.1, 0.05, 0.05], rtol=1e-6)
    momentum_follows_the_rate(here, keras.optimizers.SGD, lambda single, _: single.momentums)
    with raises(ValueError, "initial_lr"):
        schedule(None, 0.5)
    with raises(ValueError, "steps_per_epoch"):
        endless = iter([own(here, 1)] * 3)
        fit(
            model(),
            keras.optimizers.SGD(0.1),
            (b for b in endless),
            callbacks=[schedule(0.1, lambda e: 1.0, staircase=False)],
        )


@check(seconds=30)
def the_best_model_is_kept_by_one_rank(here: Here) -> None:
    best = hvd.callbacks.BestModelCheckpoint(monitor="loss", save_weights_only=True)
    with raises(ValueError, ".filepath"):
        _train(here, model(), best)
    where = directory(here)
    best = hvd.callbacks.BestModelCheckpoint(monitor="loss", save_weights_only=True)
    best.filepath = os.path.join(where, f"{here.rank}.weights.h5")
    _train(here, model(), hvd.callbacks.MetricAverageCallback(), best)
    hvd.allgather_object(None)
    assert [name for name in os.listdir(where) if name.endswith(".h5")] == ["0.weights.h5"]
    hvd.allgather_object(None)
    if here.rank == 0:
        shutil.rmtree(where)


def _behind(epochs: list[dict[str, Any]]) -> Any:
    """A callback that keeps what it is given at the end of each epoch."""
    return keras.callbacks.LambdaCallback(
        on_epoch_end=lambda epoch, logs: epochs.append(dict(logs))
    )


@check(seconds=30)
def the_metrics_callback_adds_hvdlites_numbers_for_those_behind_it(here: Here) -> None:
    epochs: list[dict[str, Any]] = []
    numbers = hvd.callbacks.MetricsCallback()
    history = _train(here, model(), numbers, _behind(epochs), validation_data=own(here))
    names = {name for name in epochs[0] if name.startswith("hvdlite/")}
    assert names == {
        "hvdlite/step_seconds",
        "hvdlite/waiting_ratio",
        "hvdlite/moving_ratio",
        "hvdlite/operations_per_second",
        "hvdlite/bytes_per_second",
    }
    assert len(epochs) > 1
    for logs in epochs:
        assert logs["hvdlite/step_seconds"] > 0
        assert 0 <= logs["hvdlite/waiting_ratio"] <= 1
        assert logs["hvdlite/bytes_per_second"] > 0, logs
    assert names <= set(history)


@check(min_ranks=2, seconds=30)
def averages_of_hvdlites_numbers_are_the_same_on_all_ranks(here: Here) -> None:
    epochs: list[dict[str, Any]] = []
    _train(
        here,
        model(),
        hvd.callbacks.MetricsCallback(),
        hvd.callbacks.MetricAverageCallback(),
        _behind(epochs),
        epochs=1,
    )
    values = [value for _, value in sorted(epochs[0].items())]
    equal_everywhere(here, [np.array(values)])


@check(min_ranks=2, seconds=30)
def the_progress_bar_is_rank_0s_unless_the_program_says_otherwise(here: Here) -> None:
    def shown(**more: Any) -> str:
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            _train(here, model(), _first_broadcast(), **more)
        return printed.getvalue()

    by_default = shown(verbose="auto")
    if keras.__version__.startswith("2."):  # it has replaced "auto" before callbacks see it
        assert "Epoch 1" in by_default
    else:
        assert ("Epoch 1" in by_default) == (here.rank == 0), by_default
    assert "Epoch 1" in shown(verbose=2)
    assert ("Epoch 1" in shown(verbose=2 if here.rank == 1 else 0)) == (here.rank == 1)
