"""A program of torch.distributed over hvdlite's backend: DistributedDataParallel, unchanged.

hvdliterun -np 2 python examples/torch_distributed.py
torchrun --nproc-per-node 2 examples/torch_distributed.py
"""

import argparse
import time

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel

import hvdlite.torch.distributed


def train(group, width, steps):
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Linear(64, width), torch.nn.ReLU(),
        torch.nn.Linear(width, width), torch.nn.ReLU(),
        torch.nn.Linear(width, 10),
    )  # fmt: skip
    model = DistributedDataParallel(model, process_group=group)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    generator = torch.Generator().manual_seed(dist.get_rank())
    images = torch.randn(32, 64, generator=generator)
    labels = torch.randint(10, (32,), generator=generator)
    start = time.perf_counter()
    for _ in range(steps):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
    speed = steps * len(images) * dist.get_world_size() / (time.perf_counter() - start)
    mean = loss.detach()
    dist.all_reduce(mean, dist.ReduceOp.AVG)
    return mean.item(), speed


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--width", type=int, default=512)
    args = parser.parse_args()

    torch.set_num_threads(1)
    # Under torchrun, dist.init_process_group("hvdlite") does the same, without the import.
    hvdlite.torch.distributed.init()
    gloo = dist.new_group(backend="gloo")  # to compare
    for name, group in (("gloo", gloo), ("hvdlite", dist.group.WORLD)):
        loss, speed = train(group, args.width, args.steps)
        if dist.get_rank() == 0:
            print(f"{name:8} loss {loss:.5f}  {speed:.0f} samples/s", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
