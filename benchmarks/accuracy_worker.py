"""A rank of benchmarks/accuracy: trains with each method and seed; rank 0 prints a line of JSON for
each."""

from __future__ import annotations

import json
import math
import re
import sys

import numpy as np
import torch
import torch.nn.functional as F
from accuracy_methods import METHODS, RANKS, Method
from sklearn.datasets import load_digits

import hvdlite.torch as hvd
from hvdlite.adapter.local import warm_up

_TESTED = 360


def network(seed: int) -> torch.nn.Module:
    torch.manual_seed(seed)
    net = torch.nn.Sequential(
        torch.nn.Linear(64, 256),
        torch.nn.ReLU(),
        torch.nn.Linear(256, 256),
        torch.nn.ReLU(),
        torch.nn.Linear(256, 10),
    )
    for layer in net[::2]:
        torch.nn.init.kaiming_normal_(layer.weight)
        torch.nn.init.zeros_(layer.bias)
    return net


def train(method: Method, seed: int) -> dict[str, object]:
    digits = load_digits()
    images = torch.tensor(digits.data, dtype=torch.float32) / 16
    labels = torch.tensor(digits.target)
    order = torch.randperm(len(images), generator=torch.Generator().manual_seed(0))
    tested, trained = order[:_TESTED], order[_TESTED:]
    net = network(seed)
    optimizer = method.make(net.parameters(), list(net.named_parameters()))
    rows = RANKS * method.batch
    steps = len(trained) // rows
    total, warm = method.epochs * steps, method.warm_up_epochs * steps
    before = hvd.metrics()["bytes"]
    for step in range(total):
        if step % steps == 0:
            shuffled = trained[torch.randperm(len(trained), generator=generator(seed, step))]
        first = step % steps * rows + hvd.rank() * method.batch
        mine = shuffled[first : first + method.batch]
        rate = method.lr * 0.5 * (1 + math.cos(math.pi * step / total))
        rate *= warm_up.factor(step, warm, RANKS, np) / RANKS
        for group in optimizer.param_groups:
            group["lr"] = rate * group.get("scale", 1.0)
        optimizer.zero_grad()
        loss = F.cross_entropy(net(images[mine]), labels[mine])
        loss.backward()
        if hasattr(optimizer, "note"):
            optimizer.note(loss=loss)
        optimizer.step()
    sent = hvd.metrics()["bytes"] - before
    if hasattr(optimizer, "sync"):
        optimizer.sync()
    with torch.no_grad():
        right = (net(images[tested]).argmax(1) == labels[tested]).float().mean().item()
    dense = total * sum(p.numel() * p.element_size() for p in net.parameters())
    return {"method": method.name, "seed": seed, "accuracy": 100 * right, "ratio": dense / sent}


def generator(seed: int, step: int) -> torch.Generator:
    return torch.Generator().manual_seed(1000 * seed + step)


def main() -> None:
    seeds, wanted = int(sys.argv[1]), sys.argv[2]
    hvd.init()
    torch.set_num_threads(1)
    for method in METHODS:
        for seed in range(seeds) if re.search(wanted, method.name) else ():
            found = train(method, seed)
            if hvd.rank() == 0:
                print(json.dumps(found), flush=True)
    hvd.shutdown()


if __name__ == "__main__":
    main()
