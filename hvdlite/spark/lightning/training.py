"""What the ranks of an Estimator for Lightning do: a Trainer over hvdlite's strategy, with each
rank's rows in memory."""

from __future__ import annotations

import importlib
import io
import math
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from hvdlite import lightning
from hvdlite.job import basics
from hvdlite.spark.common import rows
from hvdlite.spark.common.rows import Training
from hvdlite.spark.task import get_available_devices
from hvdlite.spark.torch.training import Trained, dtype_of, dumped, tensors

_PACKAGES = ("lightning.pytorch", "pytorch_lightning")


@dataclass(frozen=True)
class LightningJob:
    """What a user has given of Lightning's."""

    model: Any
    package: str
    compression: Any
    input_shapes: Sequence[Sequence[int]] | None
    label_shapes: Sequence[Sequence[int]] | None
    callbacks: Sequence[Any]
    logger: Any
    log_every_n_steps: int
    profiler: Any
    terminate_on_nan: bool
    trainer_args: Mapping[str, Any]


def package_of(model: Any) -> str:
    """Returns the package of Lightning whose module this is. Raises TypeError if it is none."""
    for kind in type(model).__mro__:
        for package in _PACKAGES:
            if kind.__name__ == "LightningModule" and kind.__module__.startswith(f"{package}."):
                return package
    raise TypeError(
        f"model is a {type(model).__name__}, and has to be a LightningModule; "
        "hvdlite.spark.torch.TorchEstimator trains other modules of torch."
    )


def train(asked: Training, job: LightningJob) -> Trained | None:
    """Runs in each rank; rank 0 returns the result."""
    import hvdlite.torch as hvd

    basics.init()
    torch.manual_seed(asked.seed)
    if basics.rank() == 0:  # the others get its weights
        _resume(asked, job.model)
    trainer, history = _trainer(asked, job)
    own = asked.read(asked.train_path, basics.rank(), basics.size())
    most = max(hvd.allgather_object(rows.rows_of(own)))
    batches = Batches(asked, job, own, asked.batch_size, most, asked.steps, asked.shuffle)
    validation = None
    if asked.val_path:
        val = asked.read(asked.val_path, basics.rank(), basics.size())
        most = max(hvd.allgather_object(rows.rows_of(val)))
        validation = Batches(
            asked, job, val, asked.val_batch_size, most, asked.val_steps, shuffle=False
        )
    trainer.fit(job.model, batches, validation)
    is_first = basics.rank() == 0
    torch.distributed.destroy_process_group()
    basics.shutdown()
    return Trained(dumped(job.model.cpu()), history) if is_first else None


class Batches:
    """A rank's batches of one epoch after the other, as many as those of every other rank."""

    def __init__(
        self,
        asked: Training,
        job: LightningJob,
        arrays: rows.Arrays,
        batch_size: int,
        most: int,
        steps: int | None,
        shuffle: bool,
    ) -> None:
        self._asked, self._job, self._arrays = asked, job, arrays
        self._dtype = dtype_of(job.model)
        self._size, self._most, self._steps = batch_size, most, steps
        seed = [asked.seed, basics.rank()]
        self._random = np.random.default_rng(seed) if shuffle else None

    def __len__(self) -> int:
        return math.ceil(self._most / self._size) if self._steps is None else self._steps

    def __iter__(self) -> Iterator[dict[str, torch.Tensor]]:
        asked, job = self._asked, self._job
        weight = [asked.weight] if asked.weight else []
        columns = (
            (asked.features, job.input_shapes), (asked.labels, job.label_shapes), (weight, None)
        )  # fmt: skip
        for batch in rows.batches(self._arrays, self._size, self._most, self._steps, self._random):
            found: dict[str, torch.Tensor] = {}
            for names, shapes in columns:
                values = tensors(batch, names, shapes, self._dtype)
                found.update(zip(names, values, strict=True))
            yield found


def _trainer(asked: Training, job: LightningJob) -> tuple[Any, list[dict[str, Any]]]:
    """Returns a Trainer, and the history that it will write."""
    pl: Any = importlib.import_module(job.package)
    history: list[dict[str, Any]] = []
    given = dict(job.trainer_args)
    callbacks = [*job.callbacks, *given.pop("callbacks", [])]
    saves = any(isinstance(each, pl.callbacks.ModelCheckpoint) for each in callbacks)
    options = {
        **_devices(asked.use_gpu),
        "strategy": _strategy(job),
        "max_epochs": asked.epochs,
        "callbacks": [*callbacks, _observer(pl, asked, job, history)],
        "logger": job.logger or False,
        "log_every_n_steps": job.log_every_n_steps,
        "profiler": job.profiler,
        "enable_checkpointing": saves,
        "enable_model_summary": False,
        "enable_progress_bar": False,
        "num_sanity_val_steps": 0,
        "use_distributed_sampler": False,
    }
    return pl.Trainer(**{**options, **given}), history


def _strategy(job: LightningJob) -> Any:
    import hvdlite.torch as hvd

    hook = {} if job.compression is None else {
        "ddp_comm_hook": hvd.ddp_comm_hook(compression=job.compression)
    }  # fmt: skip
    return lightning.make(job.package).strategy(**hook)


def _devices(use_gpu: bool) -> dict[str, Any]:
    if not use_gpu or not torch.cuda.is_available():
        return {"accelerator": "cpu"}
    given = get_available_devices()
    return {"accelerator": "gpu", "devices": [int(given[0])] if given else "auto"}


def _observer(pl: Any, asked: Training, job: LightningJob, history: list[dict[str, Any]]) -> Any:
    """Returns a callback that notes what each epoch has measured, and writes checkpoints."""

    class Observer(pl.Callback):  # type: ignore[misc]
        def on_train_batch_end(
            self, trainer: Any, module: Any, outputs: Any, batch: Any, number: int
        ) -> None:
            if job.terminate_on_nan and not torch.isfinite(outputs["loss"]).all():
                raise ValueError(
                    f"the loss of batch {number} in epoch {trainer.current_epoch} is "
                    f"{float(outputs['loss'])}"
                )

        def on_train_epoch_end(self, trainer: Any, module: Any) -> None:
            measured = {name: float(value) for name, value in trainer.callback_metrics.items()}
            history.append({"epoch": trainer.current_epoch, **measured})
            if asked.verbose and basics.rank() == 0:
                words = [f"{name} {value:.4f}" for name, value in measured.items()]
                print("  ".join([f"epoch {trainer.current_epoch + 1}", *words]), flush=True)
            if asked.store.saving_runs():
                _save(asked, trainer)

    return Observer()


def _save(asked: Training, trainer: Any) -> None:
    """Writes Lightning's checkpoint in place of that of the last epoch. All ranks take part."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "last.ckpt")
        trainer.save_checkpoint(path)
        if basics.rank() == 0:
            with open(path, "rb") as file:
                asked.store.write(asked.checkpoint, file.read())


def _resume(asked: Training, model: Any) -> None:
    """A run with this name may have been here before."""
    if asked.store.saving_runs() and asked.store.exists(asked.checkpoint):
        data = io.BytesIO(asked.store.read(asked.checkpoint))
        # The store is the user's own, like a saved model.
        state = torch.load(data, map_location="cpu", weights_only=False)
        model.load_state_dict(state["state_dict"])
