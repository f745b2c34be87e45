"""Collectives as operators of torch: opcheck, and torch.compile without a graph break; DDP's hook."""

from __future__ import annotations

import os
import tempfile
from typing import Any

import torch

import hvdlite.torch as hvd
from checks import check
from checks.here import SUM, Here, raises
from checks.torch_training import alone, batches, mean_square, model, part, same, sgd


def _operators(here: Here) -> dict[str, tuple[Any, tuple[Any, ...]]]:
    ops = torch.ops.hvdlite
    x = torch.arange(2.0 * here.size * 3).reshape(2 * here.size, 3) + here.rank
    return {
        "allreduce": (ops.allreduce.default, (x, SUM, 0.5, 2.0, 0, None)),
        "grouped_allreduce": (ops.grouped_allreduce.default, ([x, x[:1]], hvd.Average, 1.0, 1.0, 0, "group")),
        "allgather": (ops.allgather.default, (x, x.shape[0] * here.size, 0, "rows")),
        "broadcast": (ops.broadcast.default, (x, here.size - 1, 0, None)),
        "alltoall": (ops.alltoall.default, (x, 0, None)),
        "reducescatter": (ops.reducescatter.default, (x[:-1], SUM, 1.0, 1.0, 0, None)),
    }


@check(name=("allreduce", "grouped_allreduce", "allgather", "broadcast", "alltoall", "reducescatter"), seconds=30)
def opcheck_finds_nothing(here: Here, name: str) -> None:
    operator, arguments = _operators(here)[name]
    needing = tuple(
        a.clone().requires_grad_() if isinstance(a, torch.Tensor)
        else [t.clone().requires_grad_() for t in a] if isinstance(a, list) else a
        for a in arguments
    )  # fmt: skip
    torch.library.opcheck(operator, arguments)
    torch.library.opcheck(operator, needing)


def _all_of_them(x: torch.Tensor, size: int) -> torch.Tensor:
    y = hvd.allreduce(torch.tanh(x), op=hvd.Sum, name="compiled")
    a, b = hvd.grouped_allreduce([y, y * 2], op=hvd.Average)
    y = hvd.allgather(a + b)
    y = hvd.broadcast(y * 0.5, 0)
    y = hvd.alltoall(y)
    y = hvd.reducescatter(y, op=hvd.Sum)
    return hvd.allreduce_(y * 3, op=hvd.Sum).relu()


@check(seconds=60)
def a_compiled_function_gives_what_it_gives_uncompiled(here: Here) -> None:
    results = []
    for function in (_all_of_them, torch.compile(_all_of_them, backend="aot_eager", fullgraph=True)):
        x = torch.linspace(-1, 1, 6).reshape(3, 2).double().add(here.rank).requires_grad_()
        y = function(x, here.size)
        y.sum().backward()
        results.append((y.detach(), x.grad))
    for eager, compiled in zip(*results, strict=True):
        torch.testing.assert_close(compiled, eager)


@check(min_ranks=2)
def ranks_with_other_numbers_of_rows_are_told_so_inside_a_graph(here: Here) -> None:
    gather = torch.compile(lambda x: hvd.allgather(x), backend="aot_eager", fullgraph=True)
    with raises(Exception, "equally many"):
        gather(torch.ones(1 + (here.rank == 0)))
    assert hvd.allreduce(torch.ones(1), op=SUM).item() == here.size


@check(compression=("none", "bf16"), seconds=40)
def ddp_with_the_hook_trains_as_a_single_process(here: Here, compression: str) -> None:
    import torch.distributed as dist

    path = hvd.broadcast_object(tempfile.mktemp(prefix="hvdlite-ddp-") if here.rank == 0 else None)
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    dist.init_process_group("gloo", store=dist.FileStore(path, here.size), rank=here.rank, world_size=here.size)
    try:
        net = model()
        wrapped = torch.nn.parallel.DistributedDataParallel(net, bucket_cap_mb=0.0001)
        wrapped.register_comm_hook(None, hvd.ddp_comm_hook(compression=getattr(hvd.Compression, compression)))
        optimizer = sgd(net.parameters())
        for x, y in batches(here, 5):
            optimizer.zero_grad()
            mean_square(wrapped, part(here, x), part(here, y)).backward()
            optimizer.step()
        loose = {} if compression == "none" else {"rtol": 0.05, "atol": 0.02}
        same(here, net, alone(here, sgd), **loose)
    finally:
        hvd.barrier()
        dist.destroy_process_group()
        if here.rank == 0 and os.path.exists(path):
            os.unlink(path)
