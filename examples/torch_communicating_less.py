"""Trains on handwritten digits in several ways, and says what each sends and reaches.

hvdliterun -np 2 python examples/torch_communicating_less.py
"""

import argparse

import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits

import hvdlite.torch as hvd


def make_model():
    torch.manual_seed(0)  # the same on all ranks
    return torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 10))


def sgd(model):
    return torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)


WAYS = {
    "each step": lambda model: hvd.DistributedOptimizer(sgd(model)),
    "each step, by factors": lambda model: hvd.DistributedOptimizer(
        sgd(model), sufficient_factors="auto"
    ),
    "LocalSGD, every 4 steps": lambda model: hvd.LocalSGD(sgd(model), every=4),
    "LocalSGD, every 16 steps": lambda model: hvd.LocalSGD(sgd(model), every=16, start=20),
    "DiLoCo, every 20 steps": lambda model: hvd.DiLoCo(sgd(model), every=20),
    "DiLoCo in fragments": lambda model: hvd.DiLoCo(sgd(model), every=20, fragments=2, overlap=2),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--batch-size", type=int, default=16, help="per rank")
    args = parser.parse_args()

    hvd.init()
    torch.set_num_threads(1)
    digits = load_digits()
    images = torch.tensor(digits.data, dtype=torch.float32) / 16
    labels = torch.tensor(digits.target)
    order = torch.randperm(len(images), generator=torch.Generator().manual_seed(0))
    trained, tested = order[:1440], order[1440:]
    mine = trained[hvd.rank() :: hvd.size()]
    steps = len(trained) // hvd.size() // args.batch_size  # the same on all ranks

    for name, make in WAYS.items():
        model = make_model()
        optimizer = make(model)
        before = hvd.metrics()["bytes"]
        for epoch in range(args.epochs):
            generator = torch.Generator().manual_seed(1000 * epoch + hvd.rank())
            shuffled = mine[torch.randperm(len(mine), generator=generator)]
            for step in range(steps):
                batch = shuffled[step * args.batch_size :][: args.batch_size]
                optimizer.zero_grad()
                F.cross_entropy(model(images[batch]), labels[batch]).backward()
                optimizer.step()
        if not name.startswith("each step"):
            optimizer.sync()  # the ranks' weights are the same again
        sent = hvd.metrics()["bytes"] - before
        with torch.no_grad():
            accuracy = (model(images[tested]).argmax(1) == labels[tested]).float().mean()
        if hvd.rank() == 0:
            print(f"{name:26} {sent / 1e6:8.2f} MB  test accuracy {accuracy:.4f}", flush=True)
    hvd.shutdown()


if __name__ == "__main__":
    main()
