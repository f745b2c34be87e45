"""Callbacks for fit(): ranks start equal and stay equal, show the average of their metrics, and
change the learning rate together. fit() shows its progress on rank 0."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from typing import Any

from hvdlite.adapter.agreement.divergence import check_steps, mean_metrics
from hvdlite.adapter.agreement.drift_guard import ArrayReader, DriftGuard, Replica, Taken
from hvdlite.adapter.step import Options
from hvdlite.core.arrays.objects import allgather_object
from hvdlite.job.basics import rank, size
from hvdlite.job.scalars import OfEpoch
from hvdlite.keras.flavour import KERAS
from hvdlite.keras.host import (
    build,
    is_variable,
    model_variables,
    to_numpy,
    variables_of,
    velocities_of,
)
from hvdlite.keras.values import broadcast_variables
from hvdlite.keras.wrapping import come_together

__all__ = [
    "BestModelCheckpoint", "BroadcastGlobalVariablesCallback", "DriftGuardCallback",
    "LearningRateScheduleCallback", "LearningRateWarmupCallback", "LocalStepsCallback",
    "MetricAverageCallback", "MetricsCallback",
]  # fmt: skip


class QuietCallback(KERAS.callbacks.Callback):  # type: ignore[misc, name-defined]
    """Base of hvdlite's callbacks: fit() without `verbose` shows nothing on other ranks than 0."""

    def set_params(self, params: Any) -> None:
        """All callbacks of a fit() share `params`, and Keras appends its progress bar behind them.
        A number as `verbose` is obeyed. tf_keras replaces "auto" before a callback sees it."""
        if params and params.get("verbose") == "auto" and rank() != 0:
            params["verbose"] = 0
        super().set_params(params)


class DriftGuardCallback(QuietCallback):
    """Compares the weights of the ranks while fit() goes on: see docs/guides/troubleshooting.md.

    BroadcastGlobalVariablesCallback does the same. Variables that the optimizer keeps local, and
    `local_variables`, may differ.
    """

    def __init__(self, local_variables: Sequence[Any] = ()) -> None:
        super().__init__()
        self._local = list(local_variables)
        self._guard: DriftGuard | None = None

    def on_train_begin(self, logs: Any = None) -> None:
        """Comparisons begin anew."""
        self._guard = None

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """Compares a part of the weights, in some of the batches."""
        if self._guard is None:
            self._guard = guard_of(lambda: self.model, self._local)
        if self._guard is not None:
            loss = (logs or {}).get("loss")
            if loss is not None:  # the mean of this rank's losses in the epoch so far
                self._guard.see(lambda: math.isfinite(loss))
            self._guard.compare()


def guard_of(model: Callable[[], Any], local: Collection[Any]) -> DriftGuard | None:
    """A guard of the model's weights; None if its optimizer reduces with no other rank. On JAX the
    call of `model` brings the weights up to date."""
    living = model()
    optimizer = getattr(living, "optimizer", None)
    if not hasattr(optimizer, "_hvd"):  # tf_keras has it inside a LossScaleOptimizer
        optimizer = getattr(optimizer, "inner_optimizer", None)
    options: Options | None = getattr(optimizer, "_hvd", None)
    if options is None or not options.reduces():
        return None
    kept = getattr(optimizer, "_hvd_local", None)  # which hvd.OneBitAdam has not
    left_out = {id(variable) for variable in local} | (kept.ids() if kept else set())
    replicas = [
        Replica(str(getattr(each, "path", each.name)), each)
        for each in living.trainable_variables
        if id(each) not in left_out
    ]
    return DriftGuard(f"{options.scope}keras.", options.process_set, replicas, _Reader(model))


class _Reader(ArrayReader):
    def __init__(self, model: Callable[[], Any]) -> None:
        super().__init__(to_numpy)
        self._model = model

    def take(self, variables: Sequence[Any]) -> Callable[[], Taken]:
        self._model()
        return super().take(variables)

    def exact(self, variable: Any) -> int:
        self._model()
        return super().exact(variable)

    def is_finite(self, variable: Any) -> bool:
        self._model()
        return super().is_finite(variable)


class BroadcastGlobalVariablesCallback(DriftGuardCallback):
    """Gives all ranks the variables of the model and of the optimizer that `root_rank` has.

    Before the first step, if all of them exist by then on all ranks; else after it.
    `local_variables` stay as they are. Ranks that are about to make different numbers of steps are
    told so: they would wait for each other at the end. The weights are compared later: see
    DriftGuardCallback.
    """

    def __init__(self, root_rank: int, device: str = "", local_variables: Any = None) -> None:
        super().__init__(_variables(local_variables))
        del device
        self.root_rank = root_rank
        self._done = False

    def register_local_var(self, var: Any) -> None:
        """This variable stays as it is."""
        self._local += _variables(var)

    def on_train_begin(self, logs: Any = None) -> None:
        """Broadcasts, if there is everything to broadcast."""
        super().on_train_begin(logs)
        self._done = False
        model = self.model
        come_together(model.optimizer)
        ready = bool(model.built)
        if ready:
            build(model.optimizer, model.trainable_variables)
        everyones = allgather_object(
            (ready, self.params.get("steps")), "BroadcastGlobalVariablesCallback"
        )
        check_steps([steps for _, steps in everyones])
        if all(ready for ready, _ in everyones):
            self._broadcast()

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """Broadcasts, if that was not possible before."""
        if not self._done:
            self._broadcast()
        super().on_train_batch_end(batch, logs)

    def _broadcast(self) -> None:
        model = self.model  # on JAX this brings its variables up to date
        local = {id(v) for v in self._local}
        everything = model_variables(model) + variables_of(model.optimizer)
        broadcast_variables([v for v in everything if id(v) not in local], self.root_rank)
        self._done = True


def _variables(given: Any) -> list[Any]:
    variables = [] if given is None else given if isinstance(given, (list, tuple)) else [given]
    wrong = [v for v in variables if not is_variable(v)]
    if wrong:
        raise ValueError(f"local_variables must be variables, not {type(wrong[0]).__name__}")
    return list(variables)


class MetricAverageCallback(QuietCallback):
    """Averages metrics at the end of each epoch, for all callbacks behind it and for the history.

    Put it before those that read metrics (EarlyStopping, ReduceLROnPlateau, ModelCheckpoint): then
    all ranks decide alike.
    """

    def __init__(self, device: str = "") -> None:
        super().__init__()
        del device

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Changes `logs` in place."""
        if not logs or size() == 1:
            return
        come_together(self.model.optimizer)
        logs.update(mean_metrics({name: float(logs[name]) for name in sorted(logs)}))


class MetricsCallback(QuietCallback):
    """Adds hvdlite's numbers to the logs of each epoch, as hvd.metric_scalars() returns them: for
    the history and for all callbacks behind it, such as TensorBoard and those of Weights & Biases
    and MLflow.

    They cover the training steps of the epoch, and not its validation. Behind
    `MetricAverageCallback` they are those of this rank; before it they are averages.
    """

    _epoch: OfEpoch | None = None

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """The time of an epoch begins."""
        self._epoch = OfEpoch()

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """Counts. With steps_per_execution, `batch` is the last of several."""
        if self._epoch is not None:
            self._epoch.steps = batch + 1

    def on_test_begin(self, logs: Any = None) -> None:
        """The training steps of the epoch are over."""
        if self._epoch is not None:
            self._epoch.end()

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Changes `logs` in place."""
        if logs is not None and self._epoch is not None:
            logs.update(self._epoch.end())


class LearningRateScheduleCallback(QuietCallback):
    """Multiplies `initial_lr` by multiplier(epoch) in the epochs from `start_epoch` on, up to
    `end_epoch`.

    A number m as `multiplier` means m ** (epoch - start_epoch). With staircase=False the rate
    changes with every batch, and epochs are fractions; `steps_per_epoch` is found out where Keras
    knows it. momentum_correction=True scales the momentum of past gradients as the rate
    (https://arxiv.org/abs/1706.02677).
    """

    def __init__(self, initial_lr: float, multiplier: float | Callable[[float], float],
                 start_epoch: int = 0, end_epoch: int | None = None, staircase: bool = True,
                 momentum_correction: bool = True,
                 steps_per_epoch: int | None = None) -> None:  # fmt: skip
        super().__init__()
        if initial_lr is None:
            raise ValueError(
                "initial_lr= is missing: the learning rate that the multiplier applies to"
            )
        self.initial_lr = initial_lr
        self.start_epoch = start_epoch
        self.end_epoch = end_epoch
        self.momentum_correction = momentum_correction
        self.steps_per_epoch = steps_per_epoch
        self.current_epoch = 0
        self._rate: float | None = None
        if callable(multiplier):
            self.staircase = staircase
            self.multiplier: Callable[[float], float] = multiplier
        else:
            factor = multiplier
            self.staircase = True
            self.multiplier = lambda epoch: factor ** (epoch - start_epoch)

    def on_train_begin(self, logs: Any = None) -> None:
        """Finds out how many steps an epoch has."""
        self._rate = None
        if self.staircase or self.steps_per_epoch is not None:
            return
        self.steps_per_epoch = self.params.get("steps")
        if not self.steps_per_epoch:
            raise ValueError(
                f"{type(self).__name__} changes the learning rate with every batch and needs to "
                "know how many there are: Keras cannot tell, so pass steps_per_epoch="
            )

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """Notes the epoch."""
        self.current_epoch = epoch

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        """Sets the learning rate, where this is the batch to do so."""
        if self.current_epoch < self.start_epoch or (
            self.end_epoch is not None and self.current_epoch >= self.end_epoch
        ):
            return
        if self.staircase:
            if batch == 0:
                self._adjust(self.current_epoch)
        else:
            self._adjust(self.current_epoch + batch / (self.steps_per_epoch or 1))

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Shows the learning rate."""
        if logs is not None:
            logs["lr"] = self._current()

    def _adjust(self, epoch: float) -> None:
        rate = self.initial_lr * self.multiplier(epoch)
        if rate == self._rate:
            # looking at the model may cost something: on JAX its variables are fetched for it
            return
        optimizer = self.model.optimizer
        before = self._current()
        optimizer.learning_rate = rate
        self._rate = rate
        if self.momentum_correction and before > 0 and rate != before:
            for velocity in velocities_of(optimizer):
                velocity.assign(velocity * (rate / before))

    def _current(self) -> float:
        return float(to_numpy(self.model.optimizer.learning_rate))


class LearningRateWarmupCallback(LearningRateScheduleCallback):
    """Raises the learning rate from `initial_lr` / size() to `initial_lr` in the course of
    `warmup_epochs` epochs."""

    def __init__(self, initial_lr: float, warmup_epochs: int = 5, momentum_correction: bool = True,
                 steps_per_epoch: int | None = None, verbose: int = 0) -> None:  # fmt: skip
        def multiplier(epoch: float) -> float:
            # At the end of an epoch the rate is a round number, rather than at its beginning.
            epoch += 1.0 / (self.steps_per_epoch or 1)
            return 1.0 / size() * (epoch * (size() - 1) / warmup_epochs + 1)

        super().__init__(initial_lr, multiplier, 0, warmup_epochs, staircase=False,
                         momentum_correction=momentum_correction,
                         steps_per_epoch=steps_per_epoch)  # fmt: skip
        self.verbose = verbose

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Shows the learning rate."""
        super().on_epoch_end(epoch, logs)
        if (
            self.end_epoch is not None
            and epoch == self.end_epoch - 1
            and self.verbose > 0
            and rank() == 0
        ):
            print(
                f"\nEpoch {epoch + 1}: finished gradual learning rate warmup to "
                f"{self._current():g}."
            )


_NO_PATH = "hvdlite-best-model-has-no-path.weights.h5"


class BestModelCheckpoint(KERAS.callbacks.ModelCheckpoint):  # type: ignore[misc, name-defined]
    """keras.callbacks.ModelCheckpoint(save_best_only=True) whose `filepath` is set later, and which
    rank 0 writes alone."""

    def __init__(self, monitor: str = "val_loss", verbose: int = 0, save_weights_only: bool = False,
                 mode: str = "auto", save_freq: Any = "epoch") -> None:  # fmt: skip
        nowhere = _NO_PATH if save_weights_only else _NO_PATH.replace(".weights.h5", ".keras")
        super().__init__(nowhere, monitor, verbose, save_best_only=True,
                         save_weights_only=save_weights_only, mode=mode,
                         save_freq=save_freq)  # fmt: skip
        self.filepath: str | None = None

    def on_train_begin(self, logs: Any = None) -> None:
        """The last moment to have a path."""
        if self.filepath is None:
            raise ValueError(
                "BestModelCheckpoint does not know where to save: set its .filepath before fit()"
            )
        super().on_train_begin(logs)

    def _save_model(self, *args: Any, **kwargs: Any) -> None:
        if rank() == 0:
            super()._save_model(*args, **kwargs)


class LocalStepsCallback(QuietCallback):
    """For hvd.LocalSGD and hvd.DiLoCo: averages the weights before each validation and at the end
    of each epoch. Put it before callbacks that save the model.

    With adaptive=True it also sets the interval, once per epoch, by the loss of all ranks. Beside
    an optimizer whose ranks are always the same it does nothing.
    """

    _is_averaged = False

    def on_train_begin(self, logs: Any = None) -> None:
        """A TypeError if ranks never average anything."""
        optimizer = self.model.optimizer
        if not (hasattr(optimizer, "_hvd_settings") or hasattr(optimizer, "_hvd")):
            raise TypeError(
                "LocalStepsCallback: the model was compiled with a plain "
                f"{type(optimizer).__name__}, so nothing would average its weights. Compile it "
                "with hvd.LocalSGD(...) or hvd.DiLoCo(...)"
            )

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """Weights go apart."""
        self._is_averaged = False

    def on_test_begin(self, logs: Any = None) -> None:
        """The validation of an epoch begins."""
        self._average()

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """The weights are saved now, maybe."""
        self._average()
        optimizer = self.model.optimizer
        settings = getattr(optimizer, "_hvd_settings", None)
        if settings is not None and settings.plan.adaptive and logs and "loss" in logs:
            optimizer.adapt(mean_metrics({"loss": float(logs["loss"])})["loss"])

    def _average(self) -> None:
        optimizer = self.model.optimizer  # on JAX this brings the variables up to date
        if not self._is_averaged and hasattr(optimizer, "_hvd_settings"):
            optimizer.sync()
            self._is_averaged = True
