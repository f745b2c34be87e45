"""Trains on handwritten digits as a file says, and shows what that saves.

hvdliterun -np 2 python examples/torch_strategy.py
hvdliterun -np 2 python examples/torch_strategy.py --strategy mine.yml

It needs PyYAML.
"""

import argparse
from pathlib import Path

import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits

import hvdlite.torch as hvd


def train(strategy, images, labels, epochs):
    """Returns the network, and the megabytes that this rank has sent."""
    torch.manual_seed(0)  # the same on all ranks
    model = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    optimizer = hvd.DistributedOptimizer(optimizer, model.named_parameters(), strategy=strategy)
    before = hvd.metrics()["bytes"]
    for epoch in range(epochs):
        optimizer.compression.on_epoch(epoch)  # for the warm-up of dgc
        generator = torch.Generator().manual_seed(1000 * epoch + hvd.rank())
        for batch in torch.randperm(len(images), generator=generator).split(16):
            for some in batch.split(16 // strategy.backward_passes_per_step):
                F.cross_entropy(model(images[some]), labels[some]).backward()
            optimizer.step()
            optimizer.zero_grad()
    if strategy.local:
        optimizer.sync()  # the ranks' weights are the same again
    return model, (hvd.metrics()["bytes"] - before) / 1e6


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--strategy", default=Path(__file__).with_suffix(".yml"), help="a file")
    parser.add_argument("--epochs", type=int, default=12)
    args = parser.parse_args()

    hvd.init()
    torch.set_num_threads(1)
    digits = load_digits()
    images = torch.tensor(digits.data, dtype=torch.float32) / 16
    labels = torch.tensor(digits.target)
    order = torch.randperm(len(images), generator=torch.Generator().manual_seed(0))
    trained, tested = order[:1440], order[1440:]
    steps = len(trained) // hvd.size() // 16  # the same on all ranks
    mine = trained[hvd.rank() :: hvd.size()][: 16 * steps]

    for strategy in (hvd.Strategy(), hvd.Strategy.from_yaml(args.strategy)):
        model, sent = train(strategy, images[mine], labels[mine], args.epochs)
        with torch.no_grad():
            accuracy = (model(images[tested]).argmax(1) == labels[tested]).float().mean()
        if hvd.rank() == 0:
            print(f"{strategy}: {sent:.2f} MB, test accuracy {accuracy:.4f}", flush=True)
    hvd.shutdown()


if __name__ == "__main__":
    main()
