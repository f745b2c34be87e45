"""Compression of the user's own: with a name, with memory, with a schedule, and with communication
of its own."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch

import hvdlite.torch as hvd
from checks import check
from checks.here import SUM, Here, raises
from checks.torch_training import alone, equal_everywhere, model, run_steps, same, sgd, together


class Rounding(hvd.compression.Compressor):
    """Error feedback: what rounding takes away is added to the next gradient of the same name."""

    def __init__(self) -> None:
        self.memory: dict[str, torch.Tensor] = {}
        self.given: dict[str, torch.Tensor] = {}  # the sum of all gradients, for the check
        self.digits = 1

    def compress(self, tensor: torch.Tensor, name: str | None = None) -> tuple[Any, Any]:
        assert name is not None
        self.given[name] = self.given.get(name, 0) + tensor
        whole = tensor + self.memory.get(name, 0)
        sent = whole.round(decimals=self.digits)
        self.memory[name] = whole - sent
        return sent, None

    def state_dict(self) -> dict[str, Any]:
        return {"memory": self.memory, "digits": self.digits}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.memory, self.digits = dict(state["memory"]), state["digits"]

    def on_epoch(self, epoch: int) -> None:
        self.digits = 1 + epoch


class TopK(hvd.compression.Compressor):
    """Sends the largest elements as (places, values), which no reduction can add up: it gathers
    them itself."""

    def __init__(self, share: float) -> None:
        self.share = share

    def compress(self, tensor: torch.Tensor, name: str | None = None) -> tuple[Any, Any]:
        flat = tensor.reshape(-1)
        places = flat.abs().topk(max(1, int(self.share * flat.numel()))).indices
        return (places, flat[places]), tensor.shape

    def communicate(self, payload: Any, name: str, op: int, process_set: Any) -> Callable[[], Any]:
        handles = [
            hvd.allgather_async(p, f"{name}.{i}", process_set) for i, p in enumerate(payload)
        ]
        divisor = process_set.size() if op == hvd.Average else 1

        def wait() -> Any:
            places, values = (hvd.synchronize(handle) for handle in handles)
            return places, values / divisor

        return wait

    def decompress(self, payload: Any, shape: Any) -> torch.Tensor:
        places, values = payload
        return (
            torch.zeros(shape, dtype=values.dtype)
            .reshape(-1)
            .index_add_(0, places, values)
            .reshape(shape)
        )

    def on_epoch(self, epoch: int) -> None:
        self.share = 1.0


@check(min_ranks=2, groups=(None, 2))
def error_feedback_sends_in_the_end_what_it_was_given(here: Here, groups: int | None) -> None:
    net, rounding = model(), Rounding()
    start = [p.detach().clone() for p in net.parameters()]
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(net.parameters(), lr=0.1),
        net.named_parameters(),
        compression=rounding,
        groups=groups,
    )
    for epoch in range(2):
        rounding.on_epoch(epoch)
        run_steps(here, net, optimizer, 4)
    assert len(rounding.memory) == 4 and rounding.digits == 2
    missing = {name: rounding.given[name] - rounding.memory[name] for name in rounding.memory}
    sent = {
        name: hvd.allreduce(value, op=hvd.Average, name=f"sent.{name}")
        for name, value in missing.items()
    }
    moved = [p.detach() - s for p, s in zip(net.parameters(), start, strict=True)]
    by_sum = sorted(float(v.sum()) for v in sent.values())
    assert torch.allclose(
        torch.tensor(by_sum), torch.tensor(sorted(float(-m.sum() / 0.1) for m in moved))
    )
    equal_everywhere(net)


@check(min_ranks=2)
def its_memory_is_part_of_the_checkpoint(here: Here) -> None:
    def go_on(net: torch.nn.Module, optimizer: Any) -> None:
        run_steps(here, net, optimizer, 3)

    def make(net: torch.nn.Module) -> tuple[Rounding, Any]:
        rounding = Rounding()
        return rounding, hvd.DistributedOptimizer(sgd(net.parameters()), compression=rounding)

    net = model()
    rounding, optimizer = make(net)
    rounding.on_epoch(1)
    go_on(net, optimizer)
    saved = copy.deepcopy((net.state_dict(), optimizer.state_dict()))
    assert saved[1]["compression"]["digits"] == 2 and len(saved[1]["compression"]["memory"]) == 4
    go_on(net, optimizer)
    again = model(seed=5)
    other, resumed = make(again)
    again.load_state_dict(saved[0])
    resumed.load_state_dict(saved[1])
    # Names are scoped per optimizer; this one is a later one.
    assert other.digits == 2 and len(other.memory) == 4
    plain = sgd(model().parameters())
    plain.load_state_dict({k: v for k, v in saved[1].items() if k != "compression"})


@check()
def one_that_communicates_by_itself_replaces_the_reduction(here: Here) -> None:
    everything = TopK(1.0)
    same(here, together(here, sgd, compression=everything), alone(here, sgd))
    few = TopK(0.3)
    net = together(here, sgd, steps=2, compression=few)
    equal_everywhere(net)
    few.on_epoch(1)
    assert few.share == 1.0


@check(min_ranks=2)
def one_that_communicates_by_itself_knows_its_process_set_and_op(here: Here) -> None:
    subset = hvd.add_process_set([0])
    net = model()
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(net.parameters(), lr=1.0),
        compression=TopK(1.0),
        process_set=subset,
        op=hvd.Sum,
    )
    before = net[2].bias.detach().clone()
    net[2].bias.sum().backward()
    optimizer.step()
    torch.testing.assert_close(net[2].bias.detach(), before - 1)
    hvd.remove_process_set(subset)


@check()
def what_one_that_communicates_by_itself_cannot_do_is_refused(here: Here) -> None:
    net = model()
    for how in ({"groups": 2}, {"gradient_predivide_factor": 2.0}, {"op": hvd.Adasum}):
        with raises(ValueError, "communicate", next(iter(how))):
            hvd.DistributedOptimizer(sgd(net.parameters()), compression=TopK(1.0), **how)
    for call in (hvd.allreduce, hvd.reducescatter):
        with raises(ValueError, "communicate", "DistributedOptimizer"):
            call(torch.ones(here.size), compression=TopK(1.0))
    for call in (hvd.grouped_allreduce, hvd.grouped_reducescatter):
        with raises(ValueError, "communicate", "DistributedOptimizer"):
            call([torch.ones(here.size)], compression=TopK(1.0))
    assert hvd.allreduce(torch.ones(1), op=SUM).item() == here.size


@check()
def horovods_form_of_two_static_methods_works(here: Here) -> None:
    class Half:
        @staticmethod
        def compress(tensor: torch.Tensor) -> tuple[torch.Tensor, torch.dtype]:
            return tensor.half(), tensor.dtype

        @staticmethod
        def decompress(tensor: torch.Tensor, ctx: torch.dtype) -> torch.Tensor:
            return tensor.to(ctx)

    assert hvd.allreduce(torch.ones(3), op=SUM, compression=Half).dtype == torch.float32
    for groups in (None, 2):
        got = together(here, sgd, compression=Half, groups=groups)
        same(here, got, alone(here, sgd), rtol=0.05, atol=0.02)
