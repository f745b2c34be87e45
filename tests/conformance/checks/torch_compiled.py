"""Collectives as operators of torch: opcheck, and torch.compile without a graph break; DDP's
hook."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from typing import Any

import torch

import hvdlite.torch as hvd
from checks import COSTLY, check, needs
from checks.here import SUM, Here, raises
from checks.torch_training import alone, batches, mean_square, model, part, same, sgd
from hvdlite.torch import traced


def _needs_operators() -> None:
    needs(traced.AVAILABLE, "operators of torch.library that have gradients (torch 2.4)")


def needs_newer_compiler(what: str) -> None:
    is_newer = torch.torch_version.TorchVersion(torch.__version__) >= "2.5"
    needs(is_newer, f"a compiler that {what} (torch 2.5)")


def _operators(here: Here) -> dict[str, tuple[Any, tuple[Any, ...]]]:
    """Each operator alone and with a group: tensors, the results' rows, name, process set, op,
    factors, root, whether they are a group."""
    ops = torch.ops.hvdlite
    x = torch.arange(2.0 * here.size * 3).reshape(2 * here.size, 3) + here.rank
    return {
        "allreduce": (ops.allreduce.default, ([x], None, None, 0, SUM, 0.5, 2.0, 0, False)),
        "grouped_allreduce": (
            ops.allreduce.default,
            ([x, x[:1]], None, "group", 0, hvd.Average, 1.0, 1.0, 0, True),
        ),
        "allgather": (ops.allgather.default, ([x], None, "rows", 0, SUM, 1.0, 1.0, 0, False)),
        "grouped_allgather": (
            ops.allgather.default,
            ([x, x[:1]], None, "rows", 0, SUM, 1.0, 1.0, 0, True),
        ),
        "broadcast": (
            ops.broadcast.default,
            ([x], None, None, 0, SUM, 1.0, 1.0, here.size - 1, False),
        ),
        "alltoall": (ops.alltoall.default, ([x], None, None, 0, SUM, 1.0, 1.0, 0, False)),
        "reduce": (ops.reduce.default, ([x], None, None, 0, SUM, 1.0, 1.0, here.size - 1, False)),
        "reducescatter": (
            ops.reducescatter.default,
            ([x[:-1]], None, None, 0, SUM, 1.0, 1.0, 0, False),
        ),
        "grouped_reducescatter": (
            ops.reducescatter.default,
            ([x, x[:-1]], None, None, 0, SUM, 1.0, 0.5, 0, True),
        ),
    }


OPERATORS = (
    "allreduce", "grouped_allreduce", "allgather", "grouped_allgather", "broadcast", "alltoall",
    "reduce", "reducescatter", "grouped_reducescatter",
)  # fmt: skip


def _needing(argument: Any) -> Any:
    """The same, with gradients."""
    if isinstance(argument, list):
        return [_needing(each) for each in argument]
    return argument.clone().requires_grad_() if isinstance(argument, torch.Tensor) else argument


@check(name=OPERATORS, seconds=30, tags=[COSTLY])
def opcheck_finds_nothing(here: Here, name: str) -> None:
    _needs_operators()
    operator, arguments = _operators(here)[name]
    needing = tuple(_needing(argument) for argument in arguments)
    torch.library.opcheck(operator, arguments)
    torch.library.opcheck(operator, needing)


# Everything that a compiled graph may contain, with a process set; each takes and returns one
# tensor.
IN_A_GRAPH: dict[str, Callable[[torch.Tensor, hvd.ProcessSet], torch.Tensor]] = {
    "allreduce": lambda x, s: hvd.allreduce(x, op=hvd.Sum, name="compiled", process_set=s),
    "allreduce scaled": lambda x, s: hvd.allreduce(
        x, op=hvd.Average, prescale_factor=0.5, postscale_factor=3.0, process_set=s),
    "allreduce compressed": lambda x, s: hvd.allreduce(
        x, compression=hvd.Compression.bf16, process_set=s),
    "allreduce_": lambda x, s: hvd.allreduce_(x * 1, op=hvd.Sum, process_set=s),
    "grouped_allreduce": lambda x, s: torch.cat(
        hvd.grouped_allreduce([x, x * 2], op=hvd.Average, process_set=s)),
    "grouped_allreduce_": lambda x, s: torch.cat(
        hvd.grouped_allreduce_([x * 1, x * 2], op=hvd.Sum, process_set=s)),
    "allgather": lambda x, s: hvd.allgather(x, process_set=s),
    "grouped_allgather": lambda x, s: torch.cat(
        hvd.grouped_allgather([x, x[:1] * 2], name="g", process_set=s)),
    "broadcast": lambda x, s: hvd.broadcast(x, 0, process_set=s),
    "broadcast_": lambda x, s: hvd.broadcast_(x * 1, 0, process_set=s),
    "alltoall": lambda x, s: hvd.alltoall(x, process_set=s),
    "reduce": lambda x, s: hvd.reduce(x, s.ranks[-1] if s.ranks else 0, op=hvd.Sum, process_set=s),
    "reducescatter": lambda x, s: hvd.reducescatter(
        x, op=hvd.Sum, prescale_factor=0.5, process_set=s),
    "grouped_reducescatter": lambda x, s: torch.cat(
        hvd.grouped_reducescatter([x, x[1:]], process_set=s)),
}  # fmt: skip


@check(operation=tuple(IN_A_GRAPH), seconds=60, tags=[COSTLY])
def a_compiled_function_gives_what_it_gives_uncompiled(here: Here, operation: str) -> None:
    _needs_operators()
    if operation == "allreduce compressed":
        needs_newer_compiler("reads signatures")
    subset = hvd.add_process_set([0]) if here.size > 1 else hvd.global_process_set
    sets = [hvd.global_process_set, *([subset] if subset.included() else [])]

    def function(x: torch.Tensor) -> torch.Tensor:
        results = [IN_A_GRAPH[operation](torch.tanh(x), each) for each in sets]
        return torch.cat(results) * 2

    results = []
    for each in (function, torch.compile(function, backend="aot_eager", fullgraph=True)):
        x = torch.linspace(-1, 1, 24).reshape(12, 2).double().add(here.rank).requires_grad_()
        y = each(x)
        (y * torch.arange(1.0, 1 + y.numel()).reshape(y.shape)).sum().backward()
        results.append((y.detach(), x.grad))
    for eager, compiled in zip(*results, strict=True):
        torch.testing.assert_close(compiled, eager)
    torch._dynamo.reset()
    if here.size > 1:
        hvd.remove_process_set(subset)


@check(seconds=60, tags=[COSTLY])
def what_no_graph_may_contain_breaks_it_and_still_works(here: Here) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        handle = hvd.allreduce_async(x + 1, op=hvd.Sum, name="async")
        parts, received = hvd.alltoall(x, [1] * here.size)
        return hvd.synchronize(handle) + parts.sum() + received.sum()

    x = torch.arange(1.0 * here.size)
    if not traced.AVAILABLE:  # before torch 2.4
        function(x)  # a module's names are found by that compiler once they have been used
    torch.testing.assert_close(torch.compile(function, backend="aot_eager")(x), function(x))
    torch._dynamo.reset()


@check(min_ranks=2)
def ranks_with_other_numbers_of_rows_are_told_so_inside_a_graph(here: Here) -> None:
    _needs_operators()
    gather = torch.compile(lambda x: hvd.allgather(x), backend="aot_eager", fullgraph=True)
    with raises(Exception, "equally many"):
        gather(torch.ones(1 + (here.rank == 0)))
    assert hvd.allreduce(torch.ones(1), op=SUM).item() == here.size


@check(compression=("none", "bf16"), seconds=40)
def ddp_with_the_hook_trains_as_a_single_process(here: Here, compression: str) -> None:
    import torch.distributed as dist

    path = hvd.broadcast_object(tempfile.mktemp(prefix="hvdlite-ddp-") if here.rank == 0 else None)
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    dist.init_process_group(
        "gloo", store=dist.FileStore(path, here.size), rank=here.rank, world_size=here.size
    )
    try:
        net = model()
        wrapped = torch.nn.parallel.DistributedDataParallel(net, bucket_cap_mb=0.0001)
        wrapped.register_comm_hook(
            None, hvd.ddp_comm_hook(compression=getattr(hvd.Compression, compression))
        )
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
