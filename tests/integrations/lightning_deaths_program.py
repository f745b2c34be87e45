"""fit() of Lightning in which ranks die: see test_lightning_in_place.py. A process that comes to
its end writes what it knows into end.MEMBER."""

from __future__ import annotations

import json
import logging
import os
import sys
import warnings
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "multiprocess"))
warnings.filterwarnings("ignore")
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)

import dying  # noqa: E402
import lightning.pytorch as pl  # noqa: E402
import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from torch.utils.data import DataLoader, TensorDataset  # noqa: E402

import hvdlite.lightning  # noqa: E402
import hvdlite.torch as hvd  # noqa: E402

SAMPLES, CLASSES = 96, 4
EPOCHS, RANKS = int(os.environ.get("EPOCHS", "3")), int(os.environ.get("RANKS", "1"))

torch.set_num_threads(1)
pl.seed_everything(0, verbose=False)
generator = torch.Generator().manual_seed(1)
X = torch.randn(SAMPLES, 8, generator=generator)
Y = (X[:, :CLASSES] + 0.1 * torch.randn(SAMPLES, CLASSES, generator=generator)).argmax(1)
data = TensorDataset(X, Y)
sizes: list[int] = []


class Model(pl.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.net = torch.nn.Sequential(
            torch.nn.Linear(8, 16), torch.nn.BatchNorm1d(16), torch.nn.ReLU(),
            torch.nn.Linear(16, CLASSES),
        )  # fmt: skip

    def die(self, moment: str) -> None:
        training = self.trainer.strategy._training
        dying.die(moment, hvd.rank(), training.going.turn.begun if training else 0)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.net(x)

    def training_step(self, batch: Any, number: int) -> torch.Tensor:
        self.die("forward")
        if not sizes or sizes[-1] != hvd.size():
            sizes.append(hvd.size())
        out = self(batch[0])
        out.register_hook(lambda _: self.die("backward"))
        loss = F.cross_entropy(out, batch[1])
        self.log("loss", loss, sync_dist=True)
        return loss

    def on_before_optimizer_step(self, optimizer: Any) -> None:
        self.die("gate")

    def on_train_batch_end(self, *_: Any) -> None:
        self.die("tail")

    def validation_step(self, batch: Any, number: int) -> None:
        self.die("validation")
        right = (self(batch[0]).argmax(1) == batch[1]).float().mean()
        self.log("accuracy", right, sync_dist=True)

    def on_validation_end(self) -> None:
        self.die("validated")

    def on_train_epoch_end(self) -> None:
        self.die("epoch-end")
        lives = self.trainer.strategy.reduce(torch.tensor(float(dying.left())), reduce_op="max")
        enough = self.current_epoch + 1 >= EPOCHS and hvd.size() >= RANKS
        self.trainer.should_stop = enough and not lives

    def configure_optimizers(self) -> Any:
        optimizer = torch.optim.Adam(self.parameters(), lr=0.02)
        schedule = torch.optim.lr_scheduler.StepLR(optimizer, 100_000)
        return [optimizer], [{"scheduler": schedule, "interval": "step"}]


class Saves(pl.callbacks.ModelCheckpoint):
    def _save_checkpoint(self, trainer: Any, path: str) -> None:
        trainer.lightning_module.die("saving")
        super()._save_checkpoint(trainer, path)
        trainer.lightning_module.die("saved")


trainer = pl.Trainer(
    strategy=hvdlite.lightning.HvdliteStrategy(elastic=True), max_epochs=1_000_000,
    accelerator="cpu", logger=False, enable_progress_bar=False, enable_model_summary=False,
    num_sanity_val_steps=1, callbacks=[Saves(dirpath="saved", save_last=True)],
    default_root_dir=".", accumulate_grad_batches=int(os.environ.get("ACCUMULATE", "1")),
)  # fmt: skip
model = Model()
trainer.fit(model, DataLoader(data, batch_size=4, shuffle=True), DataLoader(data, batch_size=16))
with open(f"end.{hvd.elastic.member()}", "w") as file:
    json.dump(
        {
            "place": [hvd.rank(), hvd.size()], "steps": trainer.global_step,
            "epochs": trainer.current_epoch, "sizes": sizes, "pid": os.getpid(),
            "schedule": trainer.lr_scheduler_configs[0].scheduler.last_epoch,
            "weights": torch.cat([p.detach().flatten() for p in model.parameters()]).tolist(),
            "accuracy": float(trainer.callback_metrics["accuracy"]),
        },
        file,
    )  # fmt: skip
