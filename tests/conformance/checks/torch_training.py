"""What the checks of DistributedOptimizer share: a small model, data, and the same training in a
single process."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch

import hvdlite.torch as hvd
from checks.here import Here

ROWS = 4  # of each rank's batch
Loss = Callable[[torch.nn.Module, torch.Tensor, torch.Tensor], torch.Tensor]


def model(seed: int = 1, dtype: torch.dtype = torch.float64) -> torch.nn.Sequential:
    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.Tanh(), torch.nn.Linear(5, 3)).to(
        dtype
    )


def batches(
    here: Here, steps: int, dtype: torch.dtype = torch.float64
) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """The global batches, the same on every rank."""
    generator = torch.Generator().manual_seed(7)
    shape = (here.size * ROWS, 6)
    return [
        (
            torch.randn(shape, generator=generator).to(dtype),
            torch.randn(shape[0], 3, generator=generator).to(dtype),
        )
        for _ in range(steps)
    ]


def part(here: Here, batch: torch.Tensor) -> torch.Tensor:
    """This rank's rows."""
    return batch[here.rank * ROWS : (here.rank + 1) * ROWS]


def mean_square(net: torch.nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.mse_loss(net(x), y)


def distributed(
    make: Callable[[Any], Any] | None = None, net: Any = None, **how: Any
) -> tuple[Any, Any]:
    """A model with its distributed optimizer."""
    net = net if net is not None else model()
    return net, hvd.DistributedOptimizer(
        (make or sgd)(net.parameters()), net.named_parameters(), **how
    )


def backward(here: Here, net: Any) -> None:
    """On this rank's rows of the first batch."""
    x, y = batches(here, 1)[0]
    mean_square(net, part(here, x), part(here, y)).backward()


def run_steps(
    here: Here, net: Any, optimizer: Any, steps: int = 3, loss: Loss | None = None
) -> None:
    """Each with this rank's rows of a batch."""
    for x, y in batches(here, steps, next(net.parameters()).dtype):
        optimizer.zero_grad()
        (loss or mean_square)(net, part(here, x), part(here, y)).backward()
        optimizer.step()


class Training:
    """A model and its optimizer: on all ranks, each with its part of every batch, or in one process
    with the whole."""

    def __init__(
        self, here: Here, distributed: bool, make: Callable[[Any], Any], net: Any, **options: Any
    ) -> None:
        self.here, self.distributed, self.net = here, distributed, net
        self.own = make(net.parameters())  # the optimizer that is wrapped
        self.optimizer: Any = self.own
        if distributed:
            self.optimizer = hvd.DistributedOptimizer(self.own, net.named_parameters(), **options)

    def steps(self, number: int) -> Iterator[tuple[int, torch.Tensor, torch.Tensor]]:
        """Each with its number and global batch; gradients are cleared before."""
        for step, (x, y) in enumerate(
            batches(self.here, number, next(self.net.parameters()).dtype)
        ):
            self.optimizer.zero_grad()
            yield step, x, y

    def loss(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return mean_square(
            self.net, *((part(self.here, x), part(self.here, y)) if self.distributed else (x, y))
        )

    def clip_and_step(self) -> None:
        """Horovod's recipe: the gradients are reduced first."""
        if self.distributed:
            self.optimizer.synchronize()
        torch.nn.utils.clip_grad_norm_(self.net.parameters(), 0.1)
        with self.optimizer.skip_synchronize() if self.distributed else contextlib.nullcontext():
            self.optimizer.step()

    def step_of(self, scaler: Any, recipe: str) -> None:
        """The end of a step with a GradScaler, as PyTorch's page says, or Horovod's."""
        horovods = self.distributed and "horovod" in recipe
        if horovods:
            self.optimizer.synchronize()
        if "clipping" in recipe:
            scaler.unscale_(self.optimizer)
            torch.nn.utils.clip_grad_norm_(self.net.parameters(), 0.1)
        with self.optimizer.skip_synchronize() if horovods else contextlib.nullcontext():
            scaler.step(self.optimizer)
        scaler.update()


def as_in_one_process(
    here: Here, train: Callable[[Training], Any], make: Any = None, net: Any = None, **options: Any
) -> None:
    """The same program gives the same weights on all ranks as in one process, and returns the
    same."""
    both = [
        Training(here, distributed, make or sgd, (net or model)(), **options)
        for distributed in (True, False)
    ]
    returned = [train(each) for each in both]
    same(here, both[0].net, both[1].net)
    assert returned[0] == returned[1], returned


def alone(
    here: Here,
    make: Callable[[Any], Any],
    steps: int = 5,
    net: Any = None,
    loss: Loss = mean_square,
) -> Any:
    """The model after training in one process on the global batches."""
    net = net if net is not None else model()
    optimizer = make(net.parameters())
    for x, y in batches(here, steps, next(net.parameters()).dtype):
        optimizer.zero_grad()
        loss(net, x, y).backward()
        optimizer.step()
    return net


def together(
    here: Here,
    make: Callable[[Any], Any],
    steps: int = 5,
    net: Any = None,
    loss: Loss = mean_square,
    **how: Any,
) -> Any:
    """The model after training on each rank's part."""
    net, optimizer = distributed(make, net, **how)
    run_steps(here, net, optimizer, steps, loss)
    return net


def same(
    here: Here, got: torch.nn.Module, want: torch.nn.Module, rtol: float = 1e-9, atol: float = 1e-10
) -> None:
    """Equal to the reference up to rounding, and the same bits on all ranks."""
    for (name, mine), theirs in zip(
        got.state_dict().items(), want.state_dict().values(), strict=True
    ):
        torch.testing.assert_close(
            mine, theirs, rtol=rtol, atol=atol, msg=lambda m, n=name: f"{n}: {m}"
        )
    equal_everywhere(got)


def equal_everywhere(net: torch.nn.Module) -> None:
    for name, value in net.state_dict().items():
        root = hvd.broadcast(value, 0, f"equal.{name}")
        assert torch.equal(root, value), f"{name} differs from rank 0's"


def sgd(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, lr=0.2, momentum=0.9, weight_decay=1e-2, nesterov=True)
