"""Trains digits with torch on ranks that may die, leave and come while it trains.

    hvdliterun -np 2 --min-np 1 python examples/torch_elastic_digits.py

`--kill` ends one rank in the middle, as a crash would. The others go on, and a new process takes
its place. It needs torch and scikit-learn.
"""

import argparse
import os
import signal

import torch
from sklearn.datasets import load_digits

import hvdlite.torch as hvd

parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("--epochs", type=int, default=6)
parser.add_argument("--kill", action="store_true", help="kill rank 1 once, in the second epoch")
args = parser.parse_args()

hvd.init()
torch.manual_seed(0)
digits = load_digits()
images = torch.tensor(digits.data / 16, dtype=torch.float32)
labels = torch.tensor(digits.target)
train, test = torch.randperm(len(images)).split([1437, 360])

model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
state = hvd.elastic.TorchState(model, optimizer, epoch=0, batch=0, deaths=int(args.kill))


def say(text):
    if hvd.rank() == 0:
        print(text, flush=True)


@hvd.elastic.run
def fit(state):
    say(f"generation {hvd.elastic.generation()}: {hvd.size()} rank(s) go on at epoch {state.epoch}")
    while state.epoch < args.epochs:
        order = train[
            torch.randperm(len(train), generator=torch.Generator().manual_seed(state.epoch))
        ]
        batches = order.split(64)
        while state.batch < len(batches):
            mine = batches[state.batch][hvd.rank() :: hvd.size()]
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(images[mine]), labels[mine]).backward()
            if state.deaths and state.epoch == 1 and hvd.rank() == 1:
                os.kill(os.getpid(), signal.SIGKILL)
            optimizer.step()
            state.batch += 1
            state.commit()
        state.deaths = state.deaths if state.epoch < 1 else 0
        state.epoch, state.batch = state.epoch + 1, 0
        state.commit()
        correct = (model(images[test]).argmax(1) == labels[test]).float().mean()
        say(f"epoch {state.epoch}  test accuracy {correct:.3f}  {hvd.size()} rank(s)")


fit(state)
weights = hvd.allgather(torch.cat([p.detach().flatten() for p in model.parameters()])[None])
say(f"weights equal on all ranks: {bool((weights == weights[0]).all())}")
