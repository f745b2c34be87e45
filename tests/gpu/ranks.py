"""One rank of a job whose tensors are on a GPU: every collective, compared with what all ranks'
inputs give on the processor.

    hvdliterun -np 2 python tests/gpu/ranks.py [--device cpu] [--hosts]

All ranks share the first GPU. --hosts lets NCCL believe that each is on a host of its own, where it
does not take several ranks on one GPU (NCCL_MULTI_RANK_GPU_ENABLE=1) otherwise. --device cpu tries
the checks themselves.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from functools import partial

import torch
from checking import all_right, pretend_hosts

import hvdlite.torch as hvd

FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
INTEGERS = (torch.uint8, torch.int8, torch.int32, torch.int64)
# Ranks add in other orders than this file does, and 16-bit types round after each addition.
TOLERANCE = {torch.float16: 4e-3, torch.bfloat16: 3e-2, torch.float32: 1e-5, torch.float64: 1e-13}

Check = Callable[[torch.device], None]


def tensors_of(dtype: torch.dtype, *shape: int, seed: int = 0) -> list[torch.Tensor]:
    """What each rank hands over, in the order of ranks; on the processor. Small numbers, so that
    products stay in range."""
    made = []
    for rank in range(hvd.size()):
        generator = torch.Generator().manual_seed(1000 * seed + rank)
        if dtype.is_floating_point:
            made.append(
                (torch.rand(shape, generator=generator, dtype=torch.float64) + 0.5).to(dtype)
            )
        else:
            made.append(torch.randint(1, 4, shape, generator=generator).to(dtype))
    return made


def same(got: torch.Tensor, want: torch.Tensor) -> None:
    tolerance = TOLERANCE.get(want.dtype, 0.0)
    torch.testing.assert_close(got.cpu(), want, rtol=tolerance, atol=tolerance)


def allreduce(device: torch.device) -> None:
    for dtype in FLOATS + INTEGERS:
        for elements in (1, 7, 1000, 300_001):
            inputs = tensors_of(dtype, elements, seed=elements)
            wide = torch.stack(
                [t.double() if dtype.is_floating_point else t.long() for t in inputs]
            )
            mine = inputs[hvd.rank()].to(device, copy=True)
            same(hvd.allreduce(mine, op=hvd.Sum), wide.sum(0).to(dtype))
            same(hvd.allreduce(mine, op=hvd.Min), wide.amin(0).to(dtype))
            same(hvd.allreduce(mine, op=hvd.Max), wide.amax(0).to(dtype))
            same(hvd.allreduce(mine, op=hvd.Product), wide.prod(0).to(dtype))
            same(mine, inputs[hvd.rank()])
            if dtype.is_floating_point:
                same(hvd.allreduce(mine, op=hvd.Average), wide.mean(0).to(dtype))
                scaled = hvd.allreduce(mine, op=hvd.Sum, prescale_factor=0.5, postscale_factor=3.0)
                same(scaled, (wide.sum(0) * 1.5).to(dtype))


def in_place_and_grouped(device: torch.device) -> None:
    shapes = [(3,), (1,), (64, 64), (1000, 33), (5, 0), (2,)]
    inputs = [tensors_of(torch.float32, *shape, seed=n) for n, shape in enumerate(shapes)]
    mine = [each[hvd.rank()].to(device, copy=True) for each in inputs]
    for got, each in zip(hvd.grouped_allreduce(mine, op=hvd.Average), inputs, strict=True):
        same(got, torch.stack(each).mean(0))
    hvd.grouped_allreduce_(mine, op=hvd.Sum)
    for got, each in zip(mine, inputs, strict=True):
        same(got, torch.stack(each).sum(0))


def adasum(device: torch.device) -> None:
    inputs = tensors_of(torch.float32, 1000, seed=5)
    alike = inputs[0].to(device, copy=True)
    same(hvd.allreduce(alike, op=hvd.Adasum), inputs[0])  # of equal vectors: that vector
    for dtype in FLOATS:
        each = [
            tensors_of(dtype, elements, seed=elements)[hvd.rank()]
            for elements in (1, 7, 1000, 300_001)
        ]
        wanted = hvd.grouped_allreduce(each, op=hvd.Adasum)  # on the processor
        there = [tensor.to(device, copy=True) for tensor in each]
        for got, want in zip(hvd.grouped_allreduce(there, op=hvd.Adasum), wanted, strict=True):
            same(got, want)


def compression(device: torch.device) -> None:
    """The same bits as on the processor, with the same error feedback."""
    makers = {
        "int8": hvd.Compression.int8,
        "fp8": hvd.Compression.fp8,
        "sign": hvd.Compression.sign,
        "ternary": lambda: hvd.Compression.ternary(error_feedback=True),
        "threshold": lambda: hvd.Compression.threshold(0.5),
        "qsgd": hvd.Compression.qsgd,
    }
    for codec, make in makers.items():
        here, there = make(), make()
        for step in range(3):
            mine = tensors_of(torch.float32, 100, 333, seed=step)[hvd.rank()]
            name = f"compression.{codec}"
            want = hvd.allreduce(mine, op=hvd.Sum, name=name, compression=here)
            on_device = mine.to(device, copy=True)
            got = hvd.allreduce(on_device, op=hvd.Sum, name=name, compression=there)
            assert got.device.type == device.type and torch.equal(got.cpu(), want), codec
        kept = [each.state_dict()["memory"][name]["residual"] for each in (here, there)]
        assert torch.equal(*kept), codec
    if device.type == "cuda":
        assert "encoded on GPU" in hvd.metrics()["carried_by"]


def allgather(device: torch.device) -> None:
    for dtype in (torch.float32, torch.bfloat16, torch.int64, torch.bool):
        inputs = [tensors_of(dtype, rank + 1, 5, seed=7)[rank] for rank in range(hvd.size())]
        same(hvd.allgather(inputs[hvd.rank()].to(device, copy=True)), torch.cat(inputs))


def broadcast(device: torch.device) -> None:
    for root in range(hvd.size()):
        for dtype in (torch.float16, torch.float64, torch.int32, torch.bool):
            inputs = tensors_of(dtype, 257, 3, seed=root)
            same(
                hvd.broadcast(inputs[hvd.rank()].to(device, copy=True), root_rank=root),
                inputs[root],
            )


def alltoall(device: torch.device) -> None:
    size, rank = hvd.size(), hvd.rank()
    # Rank r sends to rank k r + k + 1 rows.
    inputs = [
        tensors_of(torch.float32, sum(r + k + 1 for k in range(size)), 3, seed=r)[r]
        for r in range(size)
    ]
    splits = torch.tensor([rank + k + 1 for k in range(size)], dtype=torch.int32)
    got, received = hvd.alltoall(inputs[rank].to(device, copy=True), splits=splits)
    parts = [inputs[r].split([r + k + 1 for k in range(size)])[rank] for r in range(size)]
    same(got, torch.cat(parts))
    assert received.cpu().tolist() == [r + rank + 1 for r in range(size)]


def reducescatter(device: torch.device) -> None:
    size, rank = hvd.size(), hvd.rank()
    inputs = tensors_of(torch.float32, 4 * size + 1, 6, seed=9)
    total = torch.stack(inputs).sum(0)
    rows = [4 + (r < 1) for r in range(size)]  # the first rank has what does not come out even
    same(hvd.reducescatter(inputs[rank].to(device, copy=True), op=hvd.Sum), total.split(rows)[rank])
    for root in range(size):
        got = hvd.reduce(inputs[rank].to(device, copy=True), root, op=hvd.Sum)
        same(got, total if rank == root else inputs[rank])


def streams(device: torch.device) -> None:
    """Nobody waits for a stream but the streams: a producer that takes its time, a consumer that
    begins at once."""
    if device.type != "cuda":
        return
    size, stream = hvd.size(), torch.cuda.Stream(device)
    with torch.cuda.stream(stream):
        for step in range(20):
            x = torch.zeros(1 << 20, device=device)
            torch.cuda._sleep(2_000_000)
            x += hvd.rank() + step
            total = hvd.allreduce(x, op=hvd.Sum, name=f"streams.{step}")
            doubled = total * 2
            want = 2.0 * (size * (size - 1) / 2 + size * step)
            assert bool((doubled == want).all()), (
                f"step {step}: {doubled.unique().tolist()} instead of {want}"
            )


def many_at_once(device: torch.device) -> None:
    inputs = [tensors_of(torch.float32, 50 + 997 * (n % 7), seed=n) for n in range(200)]
    order = list(range(200)) if hvd.rank() % 2 == 0 else list(reversed(range(200)))
    handles = {
        n: hvd.allreduce_async(
            inputs[n][hvd.rank()].to(device, copy=True), op=hvd.Sum, name=f"many.{n}"
        )
        for n in order
    }
    for n, handle in handles.items():
        same(hvd.synchronize(handle), torch.stack(inputs[n]).sum(0))


def model() -> torch.nn.Module:
    torch.manual_seed(2)
    return torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.Tanh(), torch.nn.Linear(32, 4))


def batch() -> torch.Tensor:
    """That of all ranks: each takes its chunk."""
    return torch.randn(8 * hvd.size(), 16, generator=torch.Generator().manual_seed(1))


def plain(network: torch.nn.Module) -> torch.optim.SGD:
    return torch.optim.SGD(network.parameters(), lr=0.1)


def two_steps(
    network: torch.nn.Module, optimizer: torch.optim.Optimizer, data: torch.Tensor
) -> list[torch.Tensor]:
    """The parameters after them."""
    for _ in range(2):
        optimizer.zero_grad()
        network(data).square().mean().backward()
        optimizer.step()
    return [
        (each.full_tensor() if hasattr(each, "full_tensor") else each).detach().cpu()
        for each in network.parameters()
    ]


def trains_as_alone(
    network: torch.nn.Module, optimizer: torch.optim.Optimizer, device: torch.device
) -> None:
    """Two steps on each rank's part of a batch are two steps on the batch."""
    part = batch().chunk(hvd.size())[hvd.rank()].to(device, copy=True)
    alone = model()
    wanted = two_steps(alone, plain(alone), batch())
    for got, want in zip(two_steps(network, optimizer, part), wanted, strict=True):
        torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-5)


def training(device: torch.device) -> None:
    network = model().to(device)
    optimizer = hvd.DistributedOptimizer(plain(network), network.named_parameters())
    trains_as_alone(network, optimizer, device)


def through_torch_distributed(device: torch.device) -> None:
    """The backend "hvdlite": a collective, DDP and FSDP 2."""
    import torch.distributed as dist
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    import hvdlite.torch.distributed as backend

    backend.init()
    inputs = tensors_of(torch.float32, 1000, seed=11)
    mine = inputs[hvd.rank()].to(device, copy=True)
    dist.all_reduce(mine)
    same(mine, torch.stack(inputs).sum(0))
    mesh = init_device_mesh(device.type, (hvd.size(),))
    for network in (
        torch.nn.parallel.DistributedDataParallel(model().to(device)),
        fully_shard(model().to(device), mesh=mesh),
    ):
        trains_as_alone(network, plain(network), device)
    dist.destroy_process_group()


CHECKS: tuple[Check, ...] = (
    allreduce,
    in_place_and_grouped,
    adasum,
    compression,
    allgather,
    broadcast,
    alltoall,
    reducescatter,
    streams,
    many_at_once,
    training,
    through_torch_distributed,
)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--hosts", action="store_true")
    options = parser.parse_args()
    if options.hosts:
        pretend_hosts()
    hvd.init()
    device = torch.device(options.device, 0) if options.device == "cuda" else torch.device("cpu")
    if not all_right(hvd.rank(), [(check.__name__, partial(check, device)) for check in CHECKS]):
        return 1
    hvd.shutdown()
    return 0


if __name__ == "__main__":
    sys.exit(main())
