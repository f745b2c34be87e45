"""train() of the Hugging Face Trainer where it is when ranks die, leave and come.

An optimizer's step is a turn (hvdlite/elastic/turns.py). A burnt turn is made again: the loop over
the batches of a step gets the same number of batches once more, and the Trainer's counters go back.
evaluate() and the saving of a checkpoint are regions. A newcomer leaves out the epochs and steps
that the others have made.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

from torch.utils.data import DataLoader
from transformers import TrainerCallback

from hvdlite.data import of_torch
from hvdlite.job import basics, membership
from hvdlite.torch.in_place.loop import GoingOn, cursor_of

_REGIONS = ("_maybe_log_save_evaluate", "evaluate", "_save_checkpoint")
_METHODS = ("_run_epoch", "get_batch_samples", "get_train_dataloader", *_REGIONS)
_OWN = ("is_local_process_zero", "is_world_process_zero", "stateful_callbacks")
_COUNTERS = ("_tr_loss", "_total_loss_scalar", "_globalstep_last_logged", "current_flos")


def elastic(trainer: Any) -> Any:
    """Lets `trainer.train()` go on where it is, in a job that `hvdliterun --min-np` has started.
    Returns the trainer. In another job it stays as it is."""
    missing = [name for name in _METHODS if not hasattr(trainer, name)]
    if missing:
        raise TypeError(
            f"hvdlite.transformers.elastic() needs a Trainer of transformers 5.20 or newer: this "
            f"{type(trainer).__name__} has no {', '.join(missing)}"
        )
    if membership.member() is not None:
        Training(trainer)
    return trainer


class Training:
    """What stands in the Trainer's place at some of its methods."""

    def __init__(self, trainer: Any) -> None:
        self._trainer = trainer
        self._raw: DataLoader[Any] | None = None
        self.going: GoingOn | None = None
        self.batches: Iterator[Any] = iter(())
        self.again = False
        self._kept: dict[str, Any] = {}
        self._came = False
        self._steps = 1  # of an epoch
        self._made: Batches | None = None
        self._loads = trainer.get_train_dataloader
        self._runs = trainer._run_epoch
        trainer.get_train_dataloader = self._train_dataloader
        trainer._run_epoch = self._run_epoch
        self._trains = trainer.training_step
        trainer.training_step = self._training_step
        trainer.get_batch_samples = lambda _, number, device: self._step(number, device)
        for name in _REGIONS:
            setattr(trainer, name, self._in_region(getattr(trainer, name)))
        trainer.add_callback(_Ends(self))

    # ---- for newcomers

    def objects(self) -> dict[str, Any]:
        """Where a turn begins."""
        state = self._trainer.state
        fields = {each.name: getattr(state, each.name) for each in dataclasses.fields(state)}
        for name in _OWN:
            fields.pop(name, None)
        return {"state": fields, "counters": self._counters()}

    def take_objects(self, found: dict[str, Any]) -> None:
        for name, value in found["state"].items():
            setattr(self._trainer.state, name, value)
        self._put(found["counters"])
        self._came = True

    # ---- turns

    def turn_begins(self) -> None:
        self._kept = copy.deepcopy(self._counters())

    def end_turn(self, control: Any) -> None:
        going = self.going
        if going is None:
            return
        burnt, state = going.burnt, self._trainer.state
        going.end_turn()
        if going.burnt == burnt:
            state.epoch = state.global_step / self._steps  # the Trainer counts what is made again
            return
        self._put(self._kept)
        state.global_step -= 1
        self.again = True
        for name in ("log", "save", "evaluate", "epoch_stop", "training_stop"):
            setattr(control, f"should_{name}", False)

    def end(self) -> None:
        going, self.going = self.going, None
        if going is not None:
            going.end_turn()
            going.end()

    # ---- in the place of the Trainer's

    def _train_dataloader(self) -> DataLoader[Any]:
        """The Trainer counts the steps of an epoch by it, and takes no batch from it."""
        accelerator = self._trainer.accelerator
        prepare, accelerator.prepare = accelerator.prepare, lambda loader: loader
        try:
            self._raw = self._loads()
        finally:
            accelerator.prepare = prepare
        # A newcomer says how many ranks there will be.
        return of_torch.by_cursor(self._raw, cursor_of(self._raw, basics.size()))

    def _run_epoch(self, **how: Any) -> None:
        trainer, steps = self._trainer, how["num_update_steps_per_epoch"]
        self._steps = steps
        if self.going is None:
            self._enter(how["model"])
        epoch, made = divmod(trainer.state.global_step, steps)
        if how["epoch"] < epoch:
            return  # before this process came
        assert self.going is not None
        self.batches = iter(self.going.loader)
        if self._came and made:
            accumulates = trainer.args.gradient_accumulation_steps
            how.update(
                resume_from_checkpoint="", epochs_trained=how["epoch"],
                steps_trained_in_current_epoch=made * accumulates,
            )  # fmt: skip
            trainer._load_rng_state = lambda checkpoint: None
        self._came = False
        try:
            self._runs(**how)
        finally:
            vars(trainer).pop("_load_rng_state", None)

    def _enter(self, model: Any) -> None:
        trainer = self._trainer
        assert self._raw is not None
        parts = {"schedule": trainer.lr_scheduler}
        scaler = getattr(trainer.accelerator, "scaler", None)
        if scaler is not None:
            parts["scaler"] = scaler
        self.going = GoingOn(model, trainer.optimizer, self._raw, self._changed, parts, self)

    def _step(self, number: int, device: Any) -> tuple[Any, Any]:
        made = self._made = Batches(self, number, device)
        return made, made.items

    def _training_step(self, model: Any, inputs: Any, items: Any = None) -> Any:
        """`items` are those of the batches that were fetched first."""
        return self._trains(model, inputs, self._made.items if self._made else items)

    def _in_region(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def called(*args: Any, **kwargs: Any) -> Any:
            if self.going is None or self.going.turn.is_open:
                return function(*args, **kwargs)
            return self.going.region(lambda: function(*args, **kwargs))

        return called

    def _changed(self, before: int, now: int) -> None:
        state = self._trainer.state
        state.is_world_process_zero = basics.rank() == 0
        state.is_local_process_zero = basics.local_rank() == 0

    def _counters(self) -> dict[str, Any]:
        return {name: getattr(self._trainer, name) for name in _COUNTERS}

    def _put(self, counters: dict[str, Any]) -> None:
        for name, value in counters.items():
            setattr(self._trainer, name, value)


class Batches:
    """Those of an optimizer's step; of a burnt one the same number again."""

    def __init__(self, training: Training, number: int, device: Any) -> None:
        self._training = training
        self._number = number
        self._device = device
        self._count = 0
        self._batches: list[Any] = []
        self._fetch()

    def __len__(self) -> int:
        """The last one adds the gradients of all ranks."""
        return self._count

    def __iter__(self) -> Iterator[Any]:
        while True:
            yield from self._batches
            if not self._training.again:
                return
            self._training.again = False
            self._fetch()

    def _fetch(self) -> None:
        training = self._training
        self._batches = []
        for batch in training.batches:
            if not self._batches:
                training.turn_begins()
            self._batches.append(batch)
            if len(self._batches) == self._number:
                break
        self._count += len(self._batches)
        self.items = training._trainer._get_num_items_in_batch(self._batches, self._device)


class _Ends(TrainerCallback):
    """The last callback, so that what the others want of a burnt step is not done."""

    def __init__(self, training: Training) -> None:
        self._training = training

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> Any:
        self._training.end_turn(control)
        return control

    def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self._training.end()
