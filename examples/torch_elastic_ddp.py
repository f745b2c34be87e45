"""Trains digits with DistributedDataParallel on ranks that may die, leave and come while it trains.

    hvdliterun -np 2 --min-np 1 python examples/torch_elastic_ddp.py

The loop is not left: the ranks that are left go on in it, and a new process enters it in the
middle. `--kill` ends one rank, as a crash would. It needs torch and scikit-learn.
"""

import argparse
import os
import signal

import torch
import torch.distributed as dist
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset

import hvdlite.torch as hvd
import hvdlite.torch.distributed

parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("--epochs", type=int, default=6)
parser.add_argument("--kill", action="store_true", help="kill rank 1 once, in the second epoch")
args = parser.parse_args()

hvdlite.torch.distributed.init()
torch.manual_seed(0)
digits = load_digits()
images = torch.tensor(digits.data / 16, dtype=torch.float32)
labels = torch.tensor(digits.target)
train, test = torch.randperm(len(images)).split([1437, 360])

net = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))
model = DistributedDataParallel(net)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=args.epochs * 23)
loader = DataLoader(TensorDataset(images[train], labels[train]), batch_size=32, shuffle=True)


def say(text):
    if dist.get_rank() == 0:
        print(text, flush=True)


going = hvd.elastic.going_on(
    model, optimizer, loader, schedule=schedule,
    on_change=lambda before, now: say(f"{now} rank(s) go on, {before} before"),
)  # fmt: skip
first = hvd.elastic.member() == 2  # of those that hvdliterun starts


def evaluate():
    part = test[dist.get_rank() :: dist.get_world_size()]
    right = (net(images[part]).argmax(1) == labels[part]).sum()
    dist.all_reduce(right)
    return float(right) / len(test)


for epoch in going.epochs(args.epochs):
    for x, y in going.loader:
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        if args.kill and first and epoch == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        optimizer.step()
        schedule.step()
    accuracy = going.region(evaluate)
    say(f"epoch {epoch + 1}  test accuracy {accuracy:.3f}  {dist.get_world_size()} rank(s)")

weights = torch.cat([p.detach().flatten() for p in net.parameters()])
found = [torch.empty_like(weights) for _ in range(dist.get_world_size())]
dist.all_gather(found, weights)
say(f"weights equal on all ranks: {all((each == weights).all() for each in found)}")
