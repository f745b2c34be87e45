"""A transformer whose layers several processes compute together, on CPUs: tensor parallelism.

    hvdliterun -np 2 python examples/torch_tensor_parallel.py

Each process has a part of every layer, and adds its result to the others' twice per layer. The
program writes some tokens over gloo and over hvdlite, and says how fast. It needs torch 2.5 or
newer.
"""

import argparse
import time

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    parallelize_module,
)

import hvdlite.torch.distributed

parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("--layers", type=int, default=8)
parser.add_argument("--width", type=int, default=512)
parser.add_argument("--tokens", type=int, default=24, help="how many to write")
args = parser.parse_args()

hvdlite.torch.distributed.init()
ranks, is_first = dist.get_world_size(), dist.get_rank() == 0
torch.set_num_threads(1)
HEAD = 64  # elements


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))
        self.out = nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x, cache):
        """`cache` has this process's heads of the tokens before."""
        inside = self.norm(x)
        query, key, value = (
            each(inside).unflatten(-1, (-1, HEAD)).transpose(0, 1)
            for each in (self.query, self.key, self.value)
        )
        if cache:
            key, value = torch.cat([cache[0], key], 1), torch.cat([cache[1], value], 1)
        cache[:] = key, value
        seen = F.scaled_dot_product_attention(query, key, value, is_causal=query.shape[1] > 1)
        x = x + self.out(seen.transpose(0, 1).flatten(1))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Writer(nn.Module):
    def __init__(self, words, width, layers):
        super().__init__()
        self.embed = nn.Embedding(words, width)
        self.blocks = nn.ModuleList(Block(width) for _ in range(layers))
        self.norm = nn.LayerNorm(width)

    @torch.no_grad()
    def write(self, tokens, number):
        """The tokens behind these."""
        caches = [[] for _ in self.blocks]
        given, found = torch.tensor(tokens), []
        for _ in range(number):
            x = self.embed(given)
            for block, cache in zip(self.blocks, caches, strict=True):
                x = block(x, cache)
            given = (self.norm(x[-1]) @ self.embed.weight.T).argmax()[None]
            found.append(int(given))
        return found


#: The columns of a layer are shared out, or its rows, behind which the parts are added.
PLAN = {
    "query": ColwiseParallel(), "key": ColwiseParallel(), "value": ColwiseParallel(),
    "out": RowwiseParallel(), "up": ColwiseParallel(), "down": RowwiseParallel(),
}  # fmt: skip


def writer():
    torch.manual_seed(0)
    return Writer(1000, args.width, args.layers)


def median(values):
    return sorted(values)[len(values) // 2]


def run(backend):
    """The tokens that come, tokens per second, and microseconds for one sum."""
    group = dist.new_group(backend=backend)
    mesh = DeviceMesh.from_group(group, "cpu", mesh=list(range(ranks)))
    model = writer()
    for block in model.blocks:
        parallelize_module(block, mesh, PLAN)
    model.write([1, 2, 3], 4)  # what is made once
    begin = time.perf_counter()
    found = model.write([1, 2, 3], args.tokens)
    speed = args.tokens / (time.perf_counter() - begin)
    part, sums = torch.zeros(args.width), []
    for _ in range(200):
        dist.barrier(group)
        begin = time.perf_counter()
        dist.all_reduce(part, group=group)
        sums.append((time.perf_counter() - begin) * 1e6)
    return found, speed, median(sums)


expected = writer().write([1, 2, 3], args.tokens)
for backend in ("gloo", "hvdlite"):
    found, speed, microseconds = run(backend)
    same = "as one process does" if found == expected else "NOT as one process does"
    if is_first:
        said = f"{backend:8} {ranks} rank(s)  {speed:6.1f} tokens/s  {microseconds:6.1f} us per sum"
        print(f"{said} of {4 * args.width} bytes  writes {same}", flush=True)
dist.destroy_process_group()
