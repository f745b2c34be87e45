"""Batch normalization over all ranks, compared with one in which each rank sees only two rows.

hvdliterun -np 2 python examples/torch_sync_batch_norm.py
"""

import argparse

import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits

import hvdlite.torch as hvd


def train(norm, x, y, test, test_y, steps, rows):
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Linear(64, 64), norm(64), torch.nn.ReLU(), torch.nn.Linear(64, 10)
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
    order = torch.Generator().manual_seed(1)
    for _ in range(steps):
        batch = torch.randint(len(x), (hvd.size() * rows,), generator=order)
        mine = batch[hvd.rank() * rows : (hvd.rank() + 1) * rows]
        optimizer.zero_grad()
        F.cross_entropy(model(x[mine]), y[mine]).backward()
        optimizer.step()
    # equal on all ranks only with synchronization
    spread = hvd.allgather(model[1].running_mean[None])
    model.eval()
    with torch.no_grad():
        accuracy = (model(test).argmax(1) == test_y).float().mean()
    return hvd.allreduce(accuracy).item(), (
        spread.max(0).values - spread.min(0).values
    ).max().item()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--rows", type=int, default=2, help="per rank and step")
    args = parser.parse_args()

    hvd.init()
    torch.set_num_threads(1)
    digits = load_digits()
    x, y = torch.tensor(digits.data, dtype=torch.float32) / 16, torch.tensor(digits.target)
    for name, norm in (("BatchNorm1d", torch.nn.BatchNorm1d), ("SyncBatchNorm", hvd.SyncBatchNorm)):
        accuracy, spread = train(
            norm, x[:1437], y[:1437], x[1437:], y[1437:], args.steps, args.rows
        )
        if hvd.rank() == 0:
            print(
                f"{name:13}  accuracy {accuracy:.4f}  statistics differ between ranks by "
                f"{spread:.4f}",
                flush=True,
            )
    hvd.shutdown()


if __name__ == "__main__":
    main()
