"""A rank that trains with torch's own wrappers over the backend hvdlite and over gloo, in one
process, and compares the losses.

Run by test_torch_backend_programs.py as `torch_training_program.py CHECK...`; the environment has
torchrun's variables.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint

if "hvdlite" not in dist.Backend.backend_list:  # torch before 2.5 looks for no backends
    import hvdlite.torch.distributed  # noqa: F401

dist.init_process_group("hvdlite")
RANK, SIZE = dist.get_rank(), dist.get_world_size()
OURS = dist.group.WORLD
GLOO = dist.new_group(backend="gloo")


class Net(torch.nn.Module):
    def __init__(self, reentrant: bool = False) -> None:
        super().__init__()
        self.first = torch.nn.Sequential(torch.nn.Linear(20, 64), torch.nn.BatchNorm1d(64))
        self.second = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU())
        self.last = torch.nn.Linear(64, 3)
        self.reentrant = reentrant

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.reentrant:  # an inner backward pass computes the gradients of these parameters
            x = checkpoint(self.first, x.requires_grad_(), use_reentrant=True)
            x = checkpoint(self.second, x, use_reentrant=True)
        else:
            x = self.second(self.first(x))
        return self.last(x)


Wrap = Callable[[torch.nn.Module], torch.nn.Module]


def losses(wrap: Wrap, steps: int = 8, reentrant: bool = False, together: Any = None) -> list[str]:
    torch.manual_seed(1)
    model = wrap(Net(reentrant))
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    generator = torch.Generator().manual_seed(RANK)
    told = []
    for _ in range(steps):
        x = torch.randn(16, 20, generator=generator)
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(x), x[:, :3].argmax(1))
        loss.backward()
        optimizer.step()
        mean = loss.detach().clone()
        dist.all_reduce(mean, group=together or GLOO)
        told.append(f"{mean.item() / SIZE:.6f}")
    return told


def completed() -> int:
    return OURS.by_backward.completed


def ddp() -> None:
    for options in (
        {},
        {"bucket_cap_mb": 0.01},
        {"gradient_as_bucket_view": True},
        {"static_graph": True},
        {"find_unused_parameters": True},
    ):
        ddp_with(options)


def ddp_with(options: dict[str, Any]) -> None:
    before = completed()
    ours, theirs = (
        losses(partial(DistributedDataParallel, process_group=group, **options))
        for group in (OURS, GLOO)
    )
    assert ours == theirs, (options, ours, theirs)
    # The thread of the backward pass has completed each bucket, but for those of the first
    # step with a static graph.
    assert completed() - before >= 7, (options, completed() - before)


def ddp_with_sparse_gradients() -> None:
    """Ranks use other rows of a table, and rows repeat."""

    def trained(group: Any, hooked: bool, **options: Any) -> list[torch.Tensor]:
        torch.manual_seed(1)
        net = torch.nn.Sequential(torch.nn.Embedding(6, 3, sparse=True), torch.nn.Linear(3, 2))
        model = DistributedDataParallel(net, process_group=group, **options)
        if hooked:
            model.register_comm_hook(group, average)
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        for step in range(3):
            optimizer.zero_grad()
            model(torch.tensor([RANK, 5, step, 5])).square().sum().backward()
            assert net[0].weight.grad.layout is torch.sparse_coo
            optimizer.step()
        return [parameter.detach() for parameter in net.parameters()]

    # DDP reads annotations, which are strings here.
    def average(group, bucket):  # type: ignore[no-untyped-def]
        work = dist.all_reduce(bucket.buffer(), group=group, async_op=True)
        return work.get_future().then(lambda future: future.value()[0] / SIZE)

    for hooked in (False, True):
        for options in ({}, {"gradient_as_bucket_view": True}):
            theirs, ours = (trained(group, hooked, **options) for group in (GLOO, OURS))
            for expected, found in zip(theirs, ours, strict=True):
                assert torch.allclose(expected, found, atol=1e-7), (hooked, options)
                everyones = [torch.zeros_like(found) for _ in range(SIZE)]
                dist.all_gather(everyones, found)
                assert all(torch.equal(found, each) for each in everyones), (hooked, options)


def ddp_as_with_a_torch_that_forgets_works() -> None:
    from hvdlite.torch.distributed import older

    older.FORGETS_WORKS = True
    ddp_with({"find_unused_parameters": True})
    assert len(OURS.by_backward.kept) == 2  # the gradients, and which of them were used


def ddp_with_reentrant_checkpoints() -> None:
    ours, theirs = (
        losses(
            lambda m, g=group: DistributedDataParallel(m, process_group=g, bucket_cap_mb=0.01),
            reentrant=True,
        )
        for group in (OURS, GLOO)
    )
    assert ours == theirs, (ours, theirs)


def gradients_are_equal_on_all_ranks() -> None:
    torch.manual_seed(RANK)
    model = DistributedDataParallel(torch.nn.Linear(5, 3))
    with model.no_sync():
        model(torch.randn(4, 5)).sum().backward()
    model(torch.randn(4, 5)).sum().backward()
    gradients = [torch.zeros(3, 5) for _ in range(SIZE)]
    dist.all_gather(gradients, model.module.weight.grad)
    assert all(torch.equal(each, gradients[0]) for each in gradients)


def ddp_joins_ranks_with_fewer_batches() -> None:
    model = DistributedDataParallel(torch.nn.Linear(4, 2))
    with model.join():
        for _ in range(3 + RANK):
            model(torch.randn(2, 4)).sum().backward()


def hooks_of_ddp() -> None:
    from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook

    # DDP reads annotations, which are strings here.
    def asks_at_once(state, bucket):  # type: ignore[no-untyped-def]
        """Waits for its future inside of the backward pass."""
        work = dist.all_reduce(bucket.buffer(), async_op=True)
        total = work.get_future().wait()[0]
        done: Any = torch.futures.Future()
        done.set_result(total / SIZE)
        return done

    def collects(state, bucket):  # type: ignore[no-untyped-def]
        work = dist.all_reduce(bucket.buffer(), async_op=True)
        return torch.futures.collect_all([work.get_future()]).then(
            lambda all_: all_.value()[0].value()[0] / SIZE
        )

    state = powerSGD_hook.PowerSGDState(None, start_powerSGD_iter=2)
    for hook, its_state in (
        (default_hooks.allreduce_hook, None),
        (default_hooks.fp16_compress_hook, None),
        (asks_at_once, None),
        (collects, None),
        (powerSGD_hook.powerSGD_hook, state),
    ):
        model = DistributedDataParallel(torch.nn.Linear(40, 40))
        model.register_comm_hook(its_state, hook)
        for _ in range(4):
            model(torch.ones(1, 40)).sum().backward()
        assert torch.equal(model.module.bias.grad, torch.full((40,), 4.0)), hook


def compiled_ddp() -> None:
    model = DistributedDataParallel(torch.nn.Linear(4, 4))
    compiled = torch.compile(model, backend="aot_eager")
    for _ in range(2):
        compiled(torch.ones(1, 4)).sum().backward()
    assert torch.equal(model.module.bias.grad, torch.full((4,), 2.0))


def compiled_collectives() -> None:
    import torch.distributed._functional_collectives as functional

    def functional_sum(x: torch.Tensor) -> torch.Tensor:
        return functional.all_reduce(x * 2, "sum", OURS) + 1

    def sum_in_place(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        dist.all_reduce(y)
        return y + 1

    for function in (functional_sum, sum_in_place):
        compiled = torch.compile(function, backend="aot_eager", fullgraph=True)
        assert compiled(torch.ones(3)).tolist() == [2 * SIZE + 1] * 3


def losses_of_fsdp1(group: Any) -> list[str]:
    from torch.distributed.fsdp import FullyShardedDataParallel

    cpu = torch.device("cpu")
    return losses(lambda m: FullyShardedDataParallel(m, process_group=group, device_id=cpu))


def fsdp1() -> None:
    ours, theirs = losses_of_fsdp1(OURS), losses_of_fsdp1(GLOO)
    assert ours == theirs, (ours, theirs)


def fsdp2() -> None:
    from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict
    from torch.distributed.device_mesh import DeviceMesh
    from torch.distributed.fsdp import fully_shard

    mesh = DeviceMesh.from_group(OURS, "cpu")
    kept: list[torch.nn.Module] = []

    def sharded(model: torch.nn.Module) -> torch.nn.Module:
        for part in (model.first, model.second, model.last):
            fully_shard(part, mesh=mesh)
        fully_shard(model, mesh=mesh)
        kept.append(model)
        return model

    # FSDP 2 itself has other losses over gloo, whose reduce_scatter takes AVG for SUM in torch 2.8.
    ours, theirs = losses(sharded), losses_of_fsdp1(GLOO)
    assert ours == theirs, (ours, theirs)
    whole = get_model_state_dict(kept[0], options=StateDictOptions(full_state_dict=True))
    assert RANK != 0 or whole["last.weight"].shape == (3, 64)


def dtensor_and_checkpoint() -> None:
    import torch.distributed.checkpoint as dcp

    try:
        from torch.distributed.tensor import Replicate, Shard, distribute_tensor
    except ImportError:  # before torch 2.5
        from torch.distributed._tensor import Replicate, Shard, distribute_tensor

    mesh = init_device_mesh("cpu", (SIZE,))
    assert mesh.get_group().name() == "hvdlite"
    whole = torch.arange(8.0).reshape(4, 2)
    sharded = distribute_tensor(whole, mesh, [Shard(0)])
    assert torch.equal(sharded.redistribute(mesh, [Replicate()]).to_local(), whole)
    assert torch.equal(sharded.redistribute(mesh, [Shard(1)]).full_tensor(), whole)
    dcp.save({"x": sharded}, checkpoint_id="checkpoint")
    loaded = {"x": distribute_tensor(torch.zeros(4, 2), mesh, [Shard(0)])}
    dcp.load(loaded, checkpoint_id="checkpoint")
    assert torch.equal(loaded["x"].full_tensor(), whole)


def zero_redundancy() -> None:
    from torch.distributed.optim import ZeroRedundancyOptimizer

    weights = []
    for group in (OURS, GLOO):
        torch.manual_seed(2)
        model = DistributedDataParallel(torch.nn.Linear(4, 4), process_group=group)
        optimizer = ZeroRedundancyOptimizer(
            model.parameters(), torch.optim.Adam, lr=0.1, process_group=group
        )
        for _ in range(3):
            model(torch.ones(1, 4) * (1 + RANK)).sum().backward()
            optimizer.step()
        weights.append(model.module.weight.detach())
    assert torch.allclose(*weights)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")
    for name in sys.argv[1:]:
        globals()[name]()
        os.write(1, f"{name}\n".encode())  # the lines of ranks stay whole
    dist.barrier()
    dist.destroy_process_group()
