"""fit() of Keras in which ranks die: see test_keras_in_place.py.

dying.py has the deaths, and `die` is called at the moments. "during" is some time in the step.
A process that comes to its end writes what it knows into end.MEMBER.
"""

from __future__ import annotations

import json
import os
import random
import sys
import threading
import time
from typing import Any

if os.environ["KERAS_BACKEND"] != "tensorflow":
    sys.modules["tensorflow"] = None  # type: ignore[assignment]  # which Keras would load for seconds

import dying
import keras
import numpy as np

import hvdlite.keras as hvd
from hvdlite.elastic.in_place import LoopInPlace

SAMPLES, CLASSES, BATCH = 96, 4, 4
EPOCHS = int(os.environ.get("EPOCHS", "3"))
#: The job goes on until it has so many ranks.
RANKS = int(os.environ.get("RANKS", "1"))

keras.utils.set_random_seed(0)
hvd.init()
loop: Any = None
turns = 0  # that have begun
whole: list[tuple[int, int]] = []  # what lay behind each step that was whole: epoch and sample


sizes: list[tuple[int, int]] = []
compiled: list[int] = []  # for each compilation of Keras' step on JAX, how many deaths lay before
if os.environ["KERAS_BACKEND"] == "jax":
    from jax import monitoring

    def hear(event: str, seconds: float, **named: Any) -> None:
        if event.endswith("backend_compile_duration") and "train_step" in named["fun_name"]:
            compiled.append(len(sizes))

    monitoring.register_event_duration_secs_listener(hear)


def die(moment: str) -> None:
    dying.die(moment, hvd.rank(), turns)


def noted(state: Any) -> None:
    """Behind each step, whoever has made it."""
    found = state.cursor.state_dict()
    whole.append((found["epoch"], found["sample"]))
    behind_boundary(state)


behind_boundary = hvd.elastic.KerasState.behind_boundary
hvd.elastic.KerasState.behind_boundary = noted
dying.watch(die, "boundary", hvd.elastic.KerasState, "behind_boundary")
dying.watch(die, "computed", hvd.elastic.KerasState, "_at_boundary")
dying.watch(die, "entry", LoopInPlace, "_let_in")
dying.watch(die, "turn", LoopInPlace, "next_turn")

generator = np.random.default_rng(1)
X = generator.standard_normal((SAMPLES, 8)).astype(np.float32)
noise = 0.1 * generator.standard_normal((SAMPLES, CLASSES))
Y = (X[:, :CLASSES] + noise).argmax(1)


def load(numbers: Any) -> Any:
    global turns
    if len(numbers) > 1:  # a step
        turns = loop.turn.begun if loop else 0
        die("load")
        if any(kill[2] == "during" for kill in dying.KILLS):
            delay, turn = random.random() * 0.003, turns
            threading.Thread(target=later, args=(delay, turn), daemon=True).start()
    return X[numbers], Y[numbers]


def later(delay: float, turn: int) -> None:
    time.sleep(delay)  # span: some time in the step
    dying.die("during", hvd.rank(), turn)


class Ends(keras.callbacks.Callback):
    """All deaths have happened, and there are as many ranks as shall be. All ranks agree."""

    def on_train_begin(self, logs: Any = None) -> None:
        self.ends, self.means = 0, []

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        die("epoch-begin")
        loop._compiler.submit(list).result()  # what was compiled in the thread is there

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        die("batch-end")

    def on_test_begin(self, logs: Any = None) -> None:
        (mean,) = (each for each in self.model.metrics if each.name == "loss")
        self.samples = float(np.asarray(mean.count))  # that are in this rank's mean
        die("validation")

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        die("epoch-end")
        lives = hvd.allreduce(np.array([float(dying.left()), 1.0, self.samples]), op=hvd.Sum)
        die("second")
        total = hvd.allreduce(np.ones(1), op=hvd.Sum)
        assert total[0] == lives[1], (total, lives)
        self.ends += 1
        self.means = [*self.means, int(lives[2])]
        if epoch + 1 >= EPOCHS and lives[1] >= RANKS and not lives[0]:
            self.model.stop_training = True


class Saves(keras.callbacks.Callback):
    """Is called on rank 0 alone. Another process knows how often."""

    saved = 0

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        assert hvd.rank() == 0
        die("saving")
        self.saved += 1


net = keras.Sequential(
    [
        keras.layers.Input((8,)),
        keras.layers.Dense(16, activation="relu"),
        keras.layers.BatchNormalization(),
        keras.layers.Dropout(0.1),
        keras.layers.Dense(CLASSES),
    ]
)
loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
net.compile(hvd.DistributedOptimizer(keras.optimizers.Adam(0.02)), loss, metrics=["accuracy"],
            **json.loads(os.environ.get("COMPILE", "{}")))  # fmt: skip
begin = LoopInPlace.__init__


def found(self: Any, *given: Any) -> None:
    global loop
    loop = self
    begin(self, *given)


LoopInPlace.__init__ = found
ends, saves = Ends(), Saves()
history = hvd.elastic.fit(
    net, load, length=SAMPLES, batch_size=BATCH, epochs=1_000_000, verbose=0, seed=3,
    callbacks=[
        hvd.callbacks.BroadcastGlobalVariablesCallback(0), hvd.callbacks.MetricAverageCallback(),
        keras.callbacks.LearningRateScheduler(lambda epoch: 0.02 * max(0.98**epoch, 0.2)), ends,
    ],
    on_rank_0=[saves], validation_data=(X, Y), validation_batch_size=SAMPLES,
    on_change=lambda before, now: sizes.append((before, now)),
    workers=int(os.environ.get("WORKERS", "0")),
)  # fmt: skip
weights = np.concatenate([np.ravel(each).astype(float) for each in net.get_weights()[:4]])
with open(f"end.{hvd.elastic.member()}", "w") as file:
    json.dump(
        {
            "weights": weights.tolist(), "steps": loop.state._marks.position, "whole": whole,
            "turns": loop.turn.begun, "iterations": int(np.asarray(net.optimizer.iterations)),
            "epochs": history.epoch, "accuracies": history.history["val_accuracy"],
            "shown": history.history["accuracy"], "ends": ends.ends, "means": ends.means,
            "saved": saves.saved, "sizes": sizes, "compiled": compiled,
            "place": [hvd.rank(), hvd.size()],
        },
        file,
    )  # fmt: skip
