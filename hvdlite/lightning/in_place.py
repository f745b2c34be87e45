"""Lightning's fit() where it is when ranks die, leave and come.

A batch is a turn (hvdlite/elastic/turns.py), or several up to the optimizer's step. A burnt turn is
made again: Lightning's counters go back to where it began. Validation is a region. A newcomer gets
the counters and the callbacks' states of the others, and enters fit() in the middle.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

from torch.utils.data import DataLoader, DistributedSampler

from hvdlite.job import basics
from hvdlite.torch.in_place.loop import GoingOn

_RANK_ZERO = ("lightning.fabric.utilities.rank_zero", "lightning_fabric.utilities.rank_zero",
              "lightning_utilities.core.rank_zero")  # fmt: skip


class Training:
    """One fit()."""

    def __init__(self, trainer: Any, model: Any) -> None:
        """`model`: the DistributedDataParallel of the strategy."""
        self._trainer = trainer
        self._loops = trainer.fit_loop
        optimizer, *others = trainer.optimizers
        parts: dict[str, Any] = {f"optimizer_{n + 2}": each for n, each in enumerate(others)}
        for number, config in enumerate(trainer.lr_scheduler_configs):
            parts[f"schedule_{number + 1}"] = config.scheduler
        scaler = getattr(trainer.precision_plugin, "scaler", None)
        if scaler is not None:
            parts["scaler"] = scaler
        self._kept: Any = None  # the counters where the open turn has begun
        self._came = False
        self.going = GoingOn(model, optimizer, self._loader(), self._changed, parts, self)
        self._take_over()

    def end(self) -> None:
        self.going.end_turn()
        self.going.end()

    # ---- for newcomers

    def objects(self) -> dict[str, Any]:
        """Where a turn begins."""
        return {
            "loops": self._loops.state_dict(),
            "callbacks": {c.state_key: c.state_dict() for c in self._trainer.callbacks},
            "batches": self._loops.max_batches,
            "stop": self._trainer.should_stop,
        }

    def take_objects(self, found: dict[str, Any]) -> None:
        loops, trainer = self._loops, self._trainer
        loops.max_batches, trainer.should_stop = found["batches"], found["stop"]
        for callback in trainer.callbacks:
            state = found["callbacks"].get(callback.state_key)
            if state:
                callback.load_state_dict(state)
        loops.load_state_dict(found["loops"])
        loops.restarting = True
        loops.update_restart_stage()
        self._came = True

    # ---- Lightning's loops

    def turn_begins(self) -> None:
        self._kept = self._loops.state_dict()  # Lightning copies its counters

    def _loader(self) -> DataLoader[Any]:
        loaders = self._loops._combined_loader.flattened
        if len(loaders) != 1 or not isinstance(loaders[0], DataLoader):
            raise ValueError(
                "HvdliteStrategy(elastic=True) needs one DataLoader for training: fit() has "
                f"{len(loaders)}, of {', '.join(type(each).__name__ for each in loaders)}"
            )
        return loaders[0]

    def _take_over(self) -> None:
        """From now on these loops ask us where they stand."""
        epochs = self._loops.epoch_loop
        self._loops._data_fetcher = Fetcher(self, self.going, self._loops)
        ends, validates, advances = epochs.on_advance_end, epochs.val_loop.run, epochs.advance

        def advance(fetcher: Any) -> None:
            if self._came:  # behind a whole batch, and in the middle of what the others do here
                self._came = epochs.restarting = False
                epochs._broadcast_sigterm_tensor = lambda: None
            try:
                advances(fetcher)
            finally:
                vars(epochs).pop("_broadcast_sigterm_tensor", None)

        def on_advance_end(fetcher: Any) -> None:
            burnt = self.going.burnt
            self.going.end_turn(is_last=fetcher.done)
            if self.going.burnt == burnt:
                ends(fetcher)
            else:
                self._make_again()

        def validate() -> Any:
            if self.going.turn.is_open:
                return validates()
            self._trainer.callback_metrics.update(self.going.region(self._metrics_of(validates)))
            return None

        epochs.advance, epochs.on_advance_end, epochs.val_loop.run = (
            advance, on_advance_end, validate,
        )  # fmt: skip

    def _metrics_of(self, validates: Any) -> Any:
        def run() -> dict[str, Any]:
            validates()
            return dict(self._trainer.callback_metrics)

        return run

    def _make_again(self) -> None:
        loops = self._loops
        loops.load_state_dict(self._kept)
        loops.restarting = loops.epoch_loop.restarting = False
        loops._loaded_from_state_dict = loops._resuming_from_checkpoint = False

    def _changed(self, before: int, now: int) -> None:
        for name in _RANK_ZERO:
            module = sys.modules.get(name)
            if module is not None:
                module.rank_zero_only.rank = basics.rank()
        combined = self._loops.epoch_loop.val_loop._combined_loader
        for loader in combined.flattened if combined is not None else ():
            sampler = getattr(loader, "sampler", None)
            if isinstance(sampler, DistributedSampler):
                deal_anew(sampler, basics.rank(), now)


class Fetcher:
    """The batches that are dealt to this rank, as Lightning asks for them."""

    def __init__(self, training: Training, going: GoingOn, loops: Any) -> None:
        self._training = training
        self._going = going
        self._limit = loops.max_batches
        self._start_profiler = self._stop_profiler = lambda: None
        self.fetched = 0
        self._epoch = going.cursor.epoch
        self._batches = iter(going.loader)

    def __iter__(self) -> Iterator[Any]:
        self._going.end_turn()
        if self.fetched and self._going.cursor.epoch == self._epoch:
            self._going.cursor.skip_rest()  # limit_train_batches
        self._epoch = self._going.cursor.epoch
        self._batches = iter(self._going.loader)
        self.fetched = 0
        return self

    def __next__(self) -> tuple[Any, int, int]:
        begun = self._going.turn.begun
        batch = next(self._batches)
        if self._going.turn.begun != begun:
            self._training.turn_begins()
        self.fetched += 1
        return batch, self.fetched - 1, 0

    @property
    def done(self) -> bool:
        """Whether the batch is the epoch's last one."""
        made = self._training._loops.epoch_loop.batch_progress.current.ready
        return self._going.cursor.epoch_ahead() != self._epoch or made + 1 >= self._limit

    @property
    def length(self) -> int:
        return int(self._limit)

    def setup(self, combined_loader: Any) -> None:
        """It has its loader."""

    def reset(self) -> None:
        self.fetched = 0

    def teardown(self) -> None:
        self._batches = iter(())


def deal_anew(sampler: DistributedSampler[Any], rank: int, size: int) -> None:
    """Deals the data set to other ranks, as a new sampler would."""
    made: DistributedSampler[Any] = DistributedSampler(
        sampler.dataset, size, rank, sampler.shuffle, sampler.seed, sampler.drop_last
    )
    for name in ("num_replicas", "rank", "num_samples", "total_size"):
        setattr(sampler, name, getattr(made, name))
