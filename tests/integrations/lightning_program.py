"""Ranks with Lightning: `python lightning_program.py PACKAGE CHECK...` prints each check that it
comes through."""

from __future__ import annotations

import importlib
import logging
import os
import sys
import warnings
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F

import hvdlite.lightning
import hvdlite.torch as hvd

PACKAGE = sys.argv[1]
pl: Any = importlib.import_module(PACKAGE)
strategies: Any = importlib.import_module(f"{PACKAGE}.strategies")
warnings.simplefilter("ignore")
for name in ("lightning.pytorch", "pytorch_lightning", "lightning.fabric", "lightning_fabric"):
    logging.getLogger(name).setLevel(logging.ERROR)

QUIET = {"enable_progress_bar": False, "enable_model_summary": False, "logger": False}
DATA = torch.utils.data.TensorDataset(
    torch.randn(64, 8, generator=torch.Generator().manual_seed(7))
)


def loader(shuffle: bool = False) -> Any:
    return torch.utils.data.DataLoader(DATA, batch_size=4, shuffle=shuffle)


class Model(pl.LightningModule):  # type: ignore[misc]
    def __init__(self, fails_at: int = -1) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(8, 2)
        self.losses: list[float] = []
        self.fails_at = fails_at
        self.backend = ""

    def loss(self, batch: Any) -> Any:
        (numbers,) = batch
        return F.cross_entropy(self.layer(numbers), (numbers.sum(1) > 0).long())

    def training_step(self, batch: Any, number: int) -> Any:
        if number == self.fails_at and self.global_rank == self.trainer.world_size - 1:
            raise ValueError("a bad batch")
        loss = self.loss(batch)
        self.log("loss", loss, sync_dist=True, on_step=False, on_epoch=True)
        return loss

    def validation_step(self, batch: Any, number: int) -> None:
        self.log("validation", self.loss(batch), sync_dist=True)

    def test_step(self, batch: Any, number: int) -> None:
        self.log("test", self.loss(batch), sync_dist=True)

    def configure_optimizers(self) -> Any:
        return torch.optim.SGD(self.parameters(), 0.1, momentum=0.9)

    def on_train_epoch_end(self) -> None:
        self.losses.append(round(float(self.trainer.callback_metrics["loss"]), 6))
        self.backend = dist.get_backend()


def ours(**options: Any) -> Any:
    return hvdlite.lightning.HvdliteStrategy(**options)


def train(strategy: Any, epochs: int = 3, checkpoint: str | None = None, **options: Any) -> Any:
    """A Trainer that has trained, and its model."""
    pl.seed_everything(1, verbose=False)
    options = {"accelerator": "cpu", "max_epochs": epochs, **QUIET, **options}
    trainer = pl.Trainer(strategy=strategy, **options)
    model = Model()
    trainer.fit(model, loader(shuffle=True), loader(), ckpt_path=checkpoint)
    return trainer, model


def facts(trainer: Any, model: Any) -> Any:
    """What does not depend on the rank and the backend."""
    sampling = (type(trainer.train_dataloader.sampler).__name__, len(trainer.train_dataloader))
    (validated,) = trainer.validate(model, loader(), verbose=False)
    (tested,) = trainer.test(model, loader(), verbose=False)
    found = (
        model.losses,
        round(float(model.layer.weight.double().sum()), 6),
        {name: round(value, 6) for name, value in (validated | tested).items()},
        trainer.world_size,
        *sampling,
    )
    told = hvd.allgather_object(found)
    assert all(each == found for each in told), told
    return found


def equals_gloo() -> None:
    how: dict[str, Any] = {
        "precision": "bf16-mixed", "accumulate_grad_batches": 2, "gradient_clip_val": 1.0,
        "enable_checkpointing": False,
    }  # fmt: skip
    trainer, model = train(ours(), **how)
    assert (trainer.global_rank, trainer.world_size) == (hvd.rank(), hvd.size())
    assert trainer.is_global_zero == (hvd.rank() == 0) and model.backend == "hvdlite"
    over_hvdlite = facts(trainer, model)
    dist.destroy_process_group()
    # torchrun's variables are there now, so Lightning's own strategy finds the ranks.
    hvdlite.torch.distributed.init("gloo")
    gloo = strategies.DDPStrategy(process_group_backend="gloo")
    trainer, model = train(gloo, devices=hvd.size(), **how)
    assert model.backend == "gloo"
    assert facts(trainer, model) == over_hvdlite
    assert over_hvdlite[3:] == (hvd.size(), "DistributedSampler", 16 // hvd.size())
    dist.destroy_process_group()


def checkpoints() -> None:
    """Rank 0 writes them, and training goes on from one as if it had not ended."""
    folder = Path("checkpoints").absolute()
    _, whole = train(ours(), enable_checkpointing=False)
    kept = pl.callbacks.ModelCheckpoint(folder, filename="{epoch}", save_top_k=-1)
    _, part = train(ours(), epochs=2, callbacks=[kept])
    hvd.barrier()
    assert sorted(path.name for path in folder.iterdir()) == ["epoch=0.ckpt", "epoch=1.ckpt"]
    assert all(hvd.broadcast_object(kept.best_model_path) == p for p in [kept.best_model_path])
    trainer, rest = train(
        ours(), checkpoint=str(folder / "epoch=1.ckpt"), enable_checkpointing=False
    )
    assert trainer.current_epoch == 3
    assert part.losses + rest.losses == whole.losses, (part.losses, rest.losses, whole.losses)
    assert torch.equal(rest.layer.weight, whole.layer.weight)


def by_name() -> None:
    trainer, model = train("hvdlite", epochs=1, enable_checkpointing=False)
    assert type(trainer.strategy).__name__ == "HvdliteStrategy" and model.backend == "hvdlite"


def a_hook_of_ddp() -> None:
    """On CPUs Lightning itself would leave it out."""
    calls = []
    hook = hvd.ddp_comm_hook(compression=hvd.Compression.fp16)

    def counted(state: Any, bucket: Any) -> Any:
        calls.append(bucket.index())
        return hook(state, bucket)

    counted.__annotations__ = hook.__annotations__
    train(ours(ddp_comm_hook=counted), epochs=1, enable_checkpointing=False)
    assert len(calls) >= 16 // hvd.size()


def a_failing_rank() -> None:
    """The others' fit() raises an error that names it."""
    pl.seed_everything(1, verbose=False)
    trainer = pl.Trainer(strategy=ours(), accelerator="cpu", max_epochs=1, **QUIET)
    try:
        trainer.fit(Model(fails_at=2), loader())
    except RuntimeError as error:
        last = hvd.size() - 1
        assert f"rank {last}" in str(error), error
        os.write(1, f"told of rank {last}\n".encode())
        os._exit(0)


if __name__ == "__main__":
    torch.set_num_threads(1)
    for check in sys.argv[2:]:
        globals()[check]()
        os.write(1, f"{check}\n".encode())
