"""A rank of drift_in_training.py: trains in one of the WAYS, while the guard compares in each step.

    hvdliterun -np 2 python drift_in_training_ranks.py WAY COMPARISONS FLIPS

The guard must be silent until it has compared COMPARISONS times. After that, FLIPS trainings have a
bit flipped, which the guard must find. Rank 0 writes what has happened into result.json.
"""

from __future__ import annotations

import itertools
import json
import random
import signal
import sys
from collections.abc import Iterator
from typing import Any

import torch

import hvdlite.torch as hvd
from hvdlite.adapter.agreement.drift_guard import DriftGuard

STEPS = 400  # of an epoch
Batch = tuple[torch.Tensor, torch.Tensor]


def batches(own: int) -> Iterator[Batch]:
    """The same few for ever. Noise keeps the weights moving."""
    random_numbers = torch.Generator().manual_seed(own)
    shared = torch.linspace(-1, 1, 6).view(6, 1)
    inputs = [torch.randn(4, 6, generator=random_numbers) for _ in range(64)]
    noise = [torch.randn(4, 1, generator=random_numbers) for _ in inputs]
    return itertools.cycle([(x, x @ shared + n) for x, n in zip(inputs, noise, strict=True)])


class Training:
    """A way to train: one process has one after the other of them."""

    seed = 7  # of the weights
    ranks: list[int] = []  # that train together
    options: dict[str, Any] = {}  # of DistributedOptimizer

    def __init__(self) -> None:
        self.ranks = self.ranks or list(range(hvd.size()))
        torch.manual_seed(self.seed)
        self.net = torch.nn.Sequential(
            torch.nn.Linear(6, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1)
        )
        self.optimizer = hvd.DistributedOptimizer(
            torch.optim.SGD(self.net.parameters(), lr=0.01, momentum=0.9),
            self.net.named_parameters(),
            **self.options,
        )
        self.batches = batches(hvd.rank())

    @property
    def guard(self) -> DriftGuard:
        guard: DriftGuard = self.optimizer._hvd.guard
        return guard

    def same(self) -> list[tuple[str, torch.Tensor]]:
        """The parameters that must be the same on all ranks, with their names."""
        return list(self.net.named_parameters())

    def loss(self) -> torch.Tensor:
        x, y = next(self.batches)
        return torch.nn.functional.mse_loss(self.net(x), y)

    def step(self) -> None:
        self.optimizer.zero_grad()
        self.loss().backward()
        self.optimizer.step()

    def epoch(self) -> None:
        for _ in range(STEPS):
            self.step()


class Amp(Training):
    """bfloat16 and a GradScaler. Rank 1 has an infinite batch, so all ranks skip that step."""

    def __init__(self) -> None:
        super().__init__()
        self.scaler = torch.amp.GradScaler("cpu", growth_interval=20)
        if hvd.rank() == 1:
            few = [next(self.batches) for _ in range(63)]
            few.append((torch.full((4, 6), torch.inf), few[0][1]))
            self.batches = itertools.cycle(few)

    def step(self) -> None:
        self.optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = self.loss()
        self.scaler.scale(loss).backward()
        self.scaler.step(self.optimizer)
        self.scaler.update()


class Accumulation(Training):
    """Three backward passes per step, and clipped gradients."""

    options = {"backward_passes_per_step": 3}

    def step(self) -> None:
        self.optimizer.zero_grad()
        for _ in range(3):
            self.loss().backward()
        self.optimizer.synchronize()
        torch.nn.utils.clip_grad_norm_(self.net.parameters(), 1.0)
        with self.optimizer.skip_synchronize():
            self.optimizer.step()


class Join(Training):
    """Uneven data: ranks join, and get the weights of the one that has joined last."""

    def __init__(self) -> None:
        super().__init__()
        self.own = random.Random(hvd.rank())

    def epoch(self) -> None:
        for _ in range(STEPS - self.own.randrange(8)):
            self.step()
        last = hvd.join()
        hvd.broadcast_parameters(self.net.state_dict(), root_rank=last)
        hvd.broadcast_optimizer_state(self.optimizer, root_rank=last)


class ProcessSets(Training):
    """Two process sets, each with weights of its own."""

    sets: list[hvd.ProcessSet] = []

    def __init__(self) -> None:
        if not self.sets:
            self.sets += [hvd.add_process_set([0, 1]), hvd.add_process_set([2, 3])]
        mine = hvd.rank() // 2
        self.options = {"process_set": self.sets[mine]}
        self.ranks, self.seed = [2 * mine, 2 * mine + 1], 7 + mine
        super().__init__()


class LocalSet(Training):
    """The last layer is another one on each rank, which the program declares."""

    def __init__(self) -> None:
        super().__init__()
        self.optimizer.may_differ(self.net[2].parameters())
        torch.manual_seed(hvd.rank())
        self.net[2].reset_parameters()

    def same(self) -> list[tuple[str, torch.Tensor]]:
        return [(name, each) for name, each in super().same() if name.startswith("0.")]


WAYS = {
    "amp": Amp,
    "accumulation": Accumulation,
    "join": Join,
    "process sets": ProcessSets,
    "local set": LocalSet,
}


class Looks:
    """Counts how often guards have looked for a difference."""

    def __init__(self) -> None:
        self.count, self._look = 0, DriftGuard._look
        DriftGuard._look = lambda guard: self.look(guard)  # type: ignore[method-assign]

    def look(self, guard: DriftGuard) -> None:
        self.count += 1
        self._look(guard)


def silent(kind: type[Training], comparisons: int) -> int:
    """Trains until each rank has compared so often. Returns how many comparisons there were, of
    which all ranks of a set have heard."""
    training = kind()
    before = [each.clone() for _, each in training.same()]
    least = 0
    while least < comparisons:
        training.epoch()
        now = [each.detach().clone() for _, each in training.same()]
        assert all(not a.equal(b) for a, b in zip(before, now, strict=True)), "nothing was learnt"
        before = now
        compared = torch.tensor(training.guard.compared)
        least = int(hvd.allreduce(compared, op=hvd.Min, name="least"))
    everyones = hvd.allgather_object((training.ranks, training.guard.compared), name="compared")
    sets = {tuple(ranks) for ranks, _ in everyones}
    return sum(min(count for ranks, count in everyones if tuple(ranks) == each) for each in sets)


def found(kind: type[Training], common: random.Random) -> int:
    """Flips a bit of the last rank of the first rank's set. Returns how many steps it took to find
    it. `common` draws the same on all ranks."""
    training = kind()
    for _ in range(common.randrange(3, 20)):
        training.step()
    name, parameter = common.choice(training.same())
    element, bit = common.randrange(parameter.numel()), common.choice([*range(12, 27), 31])
    told = 0 in training.ranks
    if told and hvd.rank() == training.ranks[-1]:
        words = parameter.detach().view(-1).view(torch.int32)
        words[element] ^= 1 << bit if bit < 31 else -(1 << 31)
    for taken in range(1, 8):
        try:
            training.step()
        except hvd.MismatchError as error:
            assert told and f"Parameter '{name}'" in str(error), error
            return taken
    assert not told, f"a flip of bit {bit} of element {element} of {name} was not found"
    return 0


def main() -> None:
    way, comparisons, flips = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    signal.alarm(600 + comparisons // 50)  # it hangs
    torch.set_num_threads(1)
    hvd.init()
    looks = Looks()
    compared = silent(WAYS[way], comparisons)
    unlike, common = looks.count, random.Random(1)
    steps = [found(WAYS[way], common) for _ in range(flips)]
    hvd.barrier()  # the end of one set would end the other
    if hvd.rank() == 0:
        result = {"compared": compared, "unlike": unlike, "flips": steps}
        with open("result.json", "w") as file:
            json.dump(result, file)


if __name__ == "__main__":
    main()
