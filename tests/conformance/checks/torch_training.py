"""What the checks of DistributedOptimizer share: a small model, data, and the same training in a single process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

import hvdlite.torch as hvd
from checks.here import Here

ROWS = 4  # of each rank's batch
Loss = Callable[[torch.nn.Module, torch.Tensor, torch.Tensor], torch.Tensor]


def model(seed: int = 1, dtype: torch.dtype = torch.float64) -> torch.nn.Sequential:
    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.Tanh(), torch.nn.Linear(5, 3)).to(dtype)


def batches(here: Here, steps: int, dtype: torch.dtype = torch.float64) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """The global batches, the same on every rank."""
    generator = torch.Generator().manual_seed(7)
    shape = (here.size * ROWS, 6)
    return [
        (torch.randn(shape, generator=generator).to(dtype), torch.randn(shape[0], 3, generator=generator).to(dtype))
        for _ in range(steps)
    ]


def part(here: Here, batch: torch.Tensor) -> torch.Tensor:
    """This rank's rows."""
    return batch[here.rank * ROWS : (here.rank + 1) * ROWS]


def mean_square(net: torch.nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.mse_loss(net(x), y)


def alone(here: Here, make: Callable[[Any], Any], steps: int = 5, net: Any = None, loss: Loss = mean_square) -> Any:
    """The model after training in one process on the global batches."""
    net = net if net is not None else model()
    optimizer = make(net.parameters())
    for x, y in batches(here, steps, next(net.parameters()).dtype):
        optimizer.zero_grad()
        loss(net, x, y).backward()
        optimizer.step()
    return net


def together(
    here: Here, make: Callable[[Any], Any], steps: int = 5, net: Any = None, loss: Loss = mean_square, **how: Any
) -> Any:
    """The model after training on each rank's part."""
    net = net if net is not None else model()
    optimizer = hvd.DistributedOptimizer(make(net.parameters()), named_parameters=net.named_parameters(), **how)
    for x, y in batches(here, steps, next(net.parameters()).dtype):
        optimizer.zero_grad()
        loss(net, part(here, x), part(here, y)).backward()
        optimizer.step()
    return net


def same(here: Here, got: torch.nn.Module, want: torch.nn.Module, rtol: float = 1e-9, atol: float = 1e-10) -> None:
    """Equal to the reference up to rounding, and the same bits on all ranks."""
    for (name, mine), theirs in zip(got.state_dict().items(), want.state_dict().values(), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=rtol, atol=atol, msg=lambda m, n=name: f"{n}: {m}")
    equal_everywhere(got)


def equal_everywhere(net: torch.nn.Module) -> None:
    for name, value in net.state_dict().items():
        root = hvd.broadcast(value, 0, f"equal.{name}")
        assert torch.equal(root, value), f"{name} differs from rank 0's"


def sgd(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, lr=0.2, momentum=0.9, weight_decay=1e-2, nesterov=True)
