"""Shares out handwritten digits, stops in the middle of an epoch, and goes on with another number
of ranks. Each digit of the epoch is trained once.

hvdliterun -np 3 python examples/torch_data.py --stop-after 5
hvdliterun -np 2 python examples/torch_data.py
"""

import argparse
import os

import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch.utils.data import DataLoader, TensorDataset

import hvdlite.torch as hvd


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--checkpoint", default="digits.pt")
    parser.add_argument("--stop-after", type=int, help="steps")
    args = parser.parse_args()

    hvd.init()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    digits = load_digits()
    numbers = torch.arange(len(digits.target))
    data = TensorDataset(
        torch.tensor(digits.data, dtype=torch.float32) / 16, torch.tensor(digits.target), numbers
    )
    loader = hvd.data.shard(DataLoader(data, batch_size=32, shuffle=True), seed=1)  # <--

    model = torch.nn.Linear(64, 10)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05 * hvd.size(), momentum=0.9)
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
    trained = torch.zeros(len(data))  # how often, by all ranks
    if os.path.exists(args.checkpoint):
        saved = torch.load(args.checkpoint)
        model.load_state_dict(saved["model"])
        loader.load_state_dict(saved["data"])  # <--
        trained = saved["trained"]

    repeats = 0
    for step, (x, y, which) in enumerate(loader):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        everything = hvd.allgather(which)
        real = loader.shard.real(len(everything))  # <-- without what pads the last step
        repeats += len(everything) - real
        trained[everything[:real]] += 1
        if step + 1 == args.stop_after:
            break
    if hvd.rank() == 0:
        state = {"model": model.state_dict(), "data": loader.state_dict(), "trained": trained}
        torch.save(state, args.checkpoint)
        once = int((trained == 1).sum())
        print(
            f"{hvd.size()} ranks, loss {loss.item():.3f}: {once} of {len(data)} digits trained "
            f"once, {int((trained > 1).sum())} more often, {repeats} repeats",
            flush=True,
        )


if __name__ == "__main__":
    main()
