"""Callbacks for fit() in an elastic job: the ends of steps, and where training goes on."""

from __future__ import annotations

from typing import Any

from hvdlite.data.cursor import Cursor
from hvdlite.keras.callbacks import QuietCallback


class _OfState(QuietCallback):
    def __init__(self, state: Any) -> None:
        super().__init__()
        self.state = state


class _Boundaries(_OfState):
    """Moves the state's cursors with the batches. With steps_per_execution a batch is several."""

    _first = 0

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        """The batch is dealt."""
        self._first = batch
        for cursor in self._cursors():
            cursor.begin()

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """The batch is whole."""
        for cursor in self._cursors():
            for _ in range(self._first, batch):
                cursor.whole()
                cursor.begin()
            cursor.whole()

    def _cursors(self) -> list[Cursor]:
        return [value for value in vars(self.state).values() if isinstance(value, Cursor)]


class CommitStateCallback(_Boundaries):
    """Commits the state every `batches_per_commit` batches, and at the end of an epoch.

    Put it behind the callbacks that change the state.
    """

    def __init__(self, state: Any, batches_per_commit: int = 1) -> None:
        super().__init__(state)
        self.batches_per_commit = batches_per_commit
        self.batches_remaining = batches_per_commit

    def on_train_begin(self, logs: Any = None) -> None:
        """All ranks of a generation count from here."""
        self.batches_remaining = self.batches_per_commit

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """Commits, if it is time."""
        super().on_train_batch_end(batch, logs)
        self.batches_remaining -= 1
        if self.batches_remaining == 0:
            self.batches_remaining = self.batches_per_commit
            self.state.commit()

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Commits."""
        self.state.commit()


class StepStateCallback(_Boundaries):
    """Ends a step of the state with each batch, and one with each epoch.

    It stands for CommitStateCallback where a copy of the weights is too much for each batch. Put
    it behind the callbacks that change the state.
    """

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """Ends a step."""
        super().on_train_batch_end(batch, logs)
        self.state.step()

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Ends a step."""
        self.state.step()


class UpdateBatchStateCallback(_OfState):
    """Keeps the number of the batch in `state.batch`; 0 at the end of an epoch.

    In the first epoch of a fit() it takes the batches of `state.batch` off `params["steps"]`.
    """

    steps_per_epoch: int | None = None

    def on_train_begin(self, logs: Any = None) -> None:
        """The next epoch is the one in which the state is."""
        self.steps_per_epoch = None

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """Says how many batches are left."""
        done = self.state.batch if self.steps_per_epoch is None else 0
        self.steps_per_epoch = self.steps_per_epoch or self.params.get("steps")
        if self.steps_per_epoch:
            self.params["steps"] = self.steps_per_epoch - done

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """Notes the batch."""
        self.state.batch = batch

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """The next epoch begins with its first batch."""
        self.state.batch = 0


class UpdateEpochStateCallback(_OfState):
    """Keeps the number of epochs in `state.epoch`; fit() counts them from 0 on each time."""

    initial_epoch = 0

    def on_train_begin(self, logs: Any = None) -> None:
        """fit() begins here."""
        self.initial_epoch = self.state.epoch

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """One more epoch is done."""
        self.state.epoch = self.initial_epoch + epoch + 1
