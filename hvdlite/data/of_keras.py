"""Keras' PyDataset: its batches are shared out, in another order in each epoch."""

from __future__ import annotations

from typing import Any

import keras

from hvdlite.data.views import Counted, ShardRequest, leave_alone


def dataset(given: Any, request: ShardRequest) -> Any:
    request.without_batch_size("a PyDataset")
    if isinstance(given, SharedPyDataset):
        return leave_alone(given, "a PyDataset", "shard() has")
    return SharedPyDataset(given, request)


class SharedPyDataset(Counted, keras.utils.PyDataset):  # type: ignore[misc]
    """This rank's batches. fit() tells when an epoch begins and ends.

    Within an epoch nothing is counted unless a callback calls `shard.record()` at a batch's end.
    """

    def __init__(self, given: Any, request: ShardRequest) -> None:
        keras.utils.PyDataset.__init__(
            self, workers=given.workers, use_multiprocessing=given.use_multiprocessing,
            max_queue_size=given.max_queue_size,
        )  # fmt: skip
        self._given = given
        self.shard = request.dealt(len(given), 1)
        self._ahead = self.shard.ahead()
        self._epoch: int | None = None  # that has begun

    def __len__(self) -> int:
        return len(self._current())

    def __getitem__(self, number: int) -> Any:
        return self._given[int(self._current()[number][0])]

    def on_epoch_begin(self) -> None:
        self._given.on_epoch_begin()
        self.shard.start()
        self._epoch = self.shard.epoch

    def on_epoch_end(self) -> None:
        """Keras also calls this before the first epoch, when it has looked at a few batches."""
        self._given.on_epoch_end()
        if self._epoch is not None:
            self.shard.end_epoch(self._epoch)
            self._epoch = None

    def _current(self) -> Any:
        if not self._ahead.is_current():
            self._ahead = self.shard.ahead()
        return self._ahead
