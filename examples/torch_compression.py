"""Deep gradient compression on scikit-learn's digits: a small part of each gradient travels.

hvdliterun -np 2 python examples/torch_compression.py
hvdliterun -np 2 python examples/torch_compression.py --method powersgd
"""

from __future__ import annotations

import argparse

import torch
from sklearn.datasets import load_digits

import hvdlite.torch as hvd

METHODS = {
    "none": lambda: hvd.Compression.none,
    "auto": lambda: hvd.Compression.auto(),
    "dgc": lambda: hvd.Compression.dgc(density=0.01, momentum=0.9, warmup_epochs=2),
    "topk": lambda: hvd.Compression.topk(density=0.05),
    "powersgd": lambda: hvd.Compression.powersgd(rank=2),
}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--method", choices=METHODS, default="dgc")
    parser.add_argument("--epochs", type=int, default=8)
    options = parser.parse_args()
    hvd.init()
    torch.manual_seed(0)

    images, labels = load_digits(return_X_y=True)
    x = torch.tensor(images / 16.0, dtype=torch.float32)
    y = torch.tensor(labels)
    training = torch.utils.data.TensorDataset(x[:1437], y[:1437])
    sampler = torch.utils.data.DistributedSampler(training, hvd.size(), hvd.rank())
    loader = torch.utils.data.DataLoader(training, batch_size=32, sampler=sampler)

    model = torch.nn.Sequential(
        torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 256), torch.nn.ReLU(),
        torch.nn.Linear(256, 10),
    )  # fmt: skip
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    compression = METHODS[options.method]()
    # dgc has the momentum itself: the optimizer must have none
    momentum = 0.0 if options.method == "dgc" else 0.9
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(model.parameters(), lr=0.1, momentum=momentum),
        named_parameters=model.named_parameters(),
        compression=compression,
    )
    before = hvd.metrics()["bytes"]
    for epoch in range(options.epochs):
        sampler.set_epoch(epoch)
        compression.on_epoch(epoch)
        for batch, wanted in loader:
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(batch), wanted).backward()
            optimizer.step()
    sent = hvd.metrics()["bytes"] - before
    with torch.no_grad():
        accuracy = float((model(x[1437:]).argmax(1) == y[1437:]).float().mean())
    accuracy = hvd.allreduce(torch.tensor(accuracy), name="accuracy").item()
    if hvd.rank() == 0:
        print(f"{options.method}: accuracy {accuracy:.3f}, {sent / 1e6:.1f} MB of gradients")


if __name__ == "__main__":
    main()
