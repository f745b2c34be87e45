"""The learning rate by epochs, with a gradual start for large jobs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hvdlite.job.basics import rank, size
from hvdlite.keras.callbacks.quiet import QuietCallback
from hvdlite.keras.host import to_numpy, velocities_of


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
