"""A program of Accelerate over hvdlite: one line before the Accelerator.

hvdliterun -np 2 python examples/accelerate_digits.py
"""

import argparse

import torch
import torch.nn.functional as F
from accelerate import Accelerator
from accelerate.utils import set_seed
from sklearn.datasets import load_digits
from torch.utils.data import DataLoader, TensorDataset

import hvdlite.torch.distributed


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=4)
    args = parser.parse_args()

    hvdlite.torch.distributed.init()
    accelerator = Accelerator()
    set_seed(0)
    digits = load_digits()
    images = torch.tensor(digits.data / 16, dtype=torch.float32)
    data = TensorDataset(images, torch.tensor(digits.target))
    train, test = torch.utils.data.random_split(data, [1437, 360])

    model = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 10))
    optimizer = torch.optim.Adam(model.parameters(), 0.002 * accelerator.num_processes)
    # prepare() gives each rank a part of the data.
    model, optimizer, train, test = accelerator.prepare(
        model, optimizer, DataLoader(train, batch_size=32, shuffle=True), DataLoader(test, 60)
    )
    for _ in range(args.epochs):
        for images, labels in train:
            optimizer.zero_grad()
            accelerator.backward(F.cross_entropy(model(images), labels))
            optimizer.step()
    with torch.no_grad():
        right = [model(images).argmax(1) == labels for images, labels in test]
    accuracy = accelerator.gather_for_metrics(torch.cat(right)).float().mean().item()
    accelerator.print(f"{accelerator.num_processes} ranks, accuracy {accuracy:.3f}")
    accelerator.end_training()
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
