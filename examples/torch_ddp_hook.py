"""A program that uses DistributedDataParallel and lets hvdlite reduce the gradients.

hvdliterun -np 2 python examples/torch_ddp_hook.py
"""

import argparse
import os
import socket
import time

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel

import hvdlite.torch as hvd


def start_gloo():
    """Starts the process group that DDP needs. hvdlite's launcher knows ranks and sizes, and rank 0
    finds a port."""
    port = 0
    if hvd.rank() == 0:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
    port = hvd.broadcast_object(port)
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    dist.init_process_group(
        "gloo", f"tcp://127.0.0.1:{port}", rank=hvd.rank(), world_size=hvd.size()
    )


def train(model, images, labels, steps):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    start = time.perf_counter()
    for _ in range(steps):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
    return loss.item(), steps * len(images) * hvd.size() / (time.perf_counter() - start)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--width", type=int, default=512)
    args = parser.parse_args()

    hvd.init()
    torch.set_num_threads(1)
    start_gloo()
    generator = torch.Generator().manual_seed(hvd.rank())
    images, labels = (
        torch.randn(32, 64, generator=generator),
        torch.randint(10, (32,), generator=generator),
    )
    losses = {}
    for way in ("gloo", "hvdlite"):
        torch.manual_seed(0)
        model = torch.nn.Sequential(
            torch.nn.Linear(64, args.width), torch.nn.ReLU(),
            torch.nn.Linear(args.width, args.width), torch.nn.ReLU(),
            torch.nn.Linear(args.width, 10),
        )  # fmt: skip
        model = DistributedDataParallel(model)
        if way == "hvdlite":
            model.register_comm_hook(None, hvd.ddp_comm_hook())  # <-- the line
        losses[way], speed = train(model, images, labels, args.steps)
        if hvd.rank() == 0:
            print(f"{way:8} loss {losses[way]:.5f}  {speed:.0f} samples/s", flush=True)
    assert abs(losses["gloo"] - losses["hvdlite"]) < 1e-4
    dist.destroy_process_group()
    hvd.shutdown()


if __name__ == "__main__":
    main()
