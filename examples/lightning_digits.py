"""Lightning's Trainer over hvdlite: one model on all ranks.

hvdliterun -np 2 python examples/lightning_digits.py
"""

import argparse
import logging
import tempfile

import lightning.pytorch as pl
import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch.utils.data import DataLoader, TensorDataset

import hvdlite.lightning


class Digits(pl.LightningModule):
    def __init__(self, lr):
        super().__init__()
        self.lr = lr
        self.layers = torch.nn.Sequential(
            torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 10)
        )

    def training_step(self, batch, _):
        images, labels = batch
        return F.cross_entropy(self.layers(images), labels)

    def validation_step(self, batch, _):
        images, labels = batch
        accuracy = (self.layers(images).argmax(1) == labels).float().mean()
        self.log("accuracy", accuracy, sync_dist=True)

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), self.lr)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=4)
    args = parser.parse_args()

    logging.getLogger("lightning.pytorch").setLevel(logging.WARNING)
    pl.seed_everything(0, verbose=False)
    digits = load_digits()
    images = torch.tensor(digits.data / 16, dtype=torch.float32)
    data = TensorDataset(images, torch.tensor(digits.target))
    train, test = torch.utils.data.random_split(data, [1437, 360])

    trainer = pl.Trainer(
        strategy=hvdlite.lightning.HvdliteStrategy(),
        max_epochs=args.epochs,
        default_root_dir=tempfile.gettempdir(),
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    model = Digits(lr=0.002 * trainer.world_size)
    # Lightning gives each rank a part of the data.
    trainer.fit(model, DataLoader(train, batch_size=32, shuffle=True))
    (found,) = trainer.validate(model, DataLoader(test, batch_size=60), verbose=False)
    if trainer.is_global_zero:
        print(f"{trainer.world_size} ranks, accuracy {found['accuracy']:.3f}", flush=True)


if __name__ == "__main__":
    main()
