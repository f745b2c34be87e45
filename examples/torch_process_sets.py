"""Trains two models at once: even ranks one, odd ranks the other. All ranks compare the results.

hvdliterun -np 4 python examples/torch_process_sets.py
"""

import argparse

import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits

import hvdlite.torch as hvd


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=150)
    args = parser.parse_args()

    hvd.init()
    torch.set_num_threads(1)
    # Every rank registers every set, in the same order. A job of one rank has it in both teams.
    widths = {"even": 16, "odd": 64}
    sets = {"even": hvd.global_process_set, "odd": hvd.global_process_set}
    if hvd.size() > 1:
        sets = {
            "even": hvd.add_process_set(range(0, hvd.size(), 2)),
            "odd": hvd.add_process_set(range(1, hvd.size(), 2)),
        }
    team = "odd" if hvd.rank() % 2 else "even"
    mine = sets[team]

    digits = load_digits()
    x, y = torch.tensor(digits.data, dtype=torch.float32) / 16, torch.tensor(digits.target)
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Linear(64, widths[team]), torch.nn.ReLU(), torch.nn.Linear(widths[team], 10)
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    optimizer = hvd.DistributedOptimizer(optimizer, model.named_parameters(), process_set=mine)
    generator = torch.Generator().manual_seed(hvd.rank())
    for _ in range(args.steps):
        batch = torch.randint(1437, (32,), generator=generator)
        optimizer.zero_grad()
        F.cross_entropy(model(x[batch]), y[batch]).backward()
        optimizer.step()
    with torch.no_grad():
        accuracy = (model(x[1437:]).argmax(1) == y[1437:]).float().mean().item()

    results = hvd.allgather_object((team, mine.ranks, accuracy))
    if hvd.rank() == 0:
        for team in sorted({r[0] for r in results}):
            _, ranks, best = max(r for r in results if r[0] == team)
            print(f"{team:4}  ranks {ranks}  width {widths[team]}  accuracy {best:.4f}", flush=True)
    hvd.shutdown()


if __name__ == "__main__":
    main()
