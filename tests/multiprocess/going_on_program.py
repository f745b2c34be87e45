"""A loop over DistributedDataParallel in which ranks die: see test_torch_in_place.py.

dying.py has the deaths, and `die` is called at the moments.
A process that comes to its end writes what it knows into end.MEMBER.
"""

from __future__ import annotations

import json
import os
from typing import Any

import dying
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel

import hvdlite.torch as hvd
import hvdlite.torch.distributed

SAMPLES, CLASSES, BATCH = 96, 4, 4
EPOCHS = int(os.environ.get("EPOCHS", "3"))
ACCUMULATE = int(os.environ.get("ACCUMULATE", "1"))
#: The job goes on until it has so many ranks.
RANKS = int(os.environ.get("RANKS", "1"))

torch.set_num_threads(1)
torch.manual_seed(0)
hvdlite.torch.distributed.init()


def die(moment: str) -> None:
    rank = hvd.rank() if "entry" in moment else dist.get_rank()  # a newcomer's group is alone
    dying.die(moment, rank, going.turn.begun if going else 0)


def has_come_to_its_end(epoch: int) -> bool:
    """All deaths have happened, and there are as many ranks as shall be. All ranks agree."""
    lives = torch.tensor([float(dying.left())])
    dist.all_reduce(lives)
    return epoch >= EPOCHS and dist.get_world_size() >= RANKS and not lives


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Linear(8, 16)
        self.norm = torch.nn.BatchNorm1d(16)
        self.last = torch.nn.Linear(16, CLASSES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        die("forward")
        hidden = self.norm(F.relu(self.first(x)))
        if hidden.requires_grad:
            hidden.register_hook(lambda _: die("backward"))
        return self.last(F.dropout(hidden, 0.1, self.training))


generator = torch.Generator().manual_seed(1)
X = torch.randn(SAMPLES, 8, generator=generator)
Y = (X[:, :CLASSES] + 0.1 * torch.randn(SAMPLES, CLASSES, generator=generator)).argmax(1)
data = torch.utils.data.TensorDataset(X, Y, torch.arange(SAMPLES))
loader = torch.utils.data.DataLoader(
    data, batch_size=BATCH, shuffle=True, num_workers=int(os.environ.get("WORKERS", "0"))
)

how = json.loads(os.environ.get("DDP", "{}"))
own = dist.new_group() if os.environ.get("GROUP") else None
net = Net()
optimizer: Any = torch.optim.Adam(net.parameters(), lr=0.02)
if os.environ.get("ACCELERATE"):
    from accelerate import Accelerator

    accelerator = Accelerator(cpu=True)
    model, optimizer = accelerator.prepare(net, optimizer)
    assert isinstance(model, DistributedDataParallel), type(model)
else:
    accelerator = None
    model = DistributedDataParallel(net, process_group=own, **how)
schedule = torch.optim.lr_scheduler.StepLR(
    optimizer.optimizer if accelerator else optimizer, 1000, gamma=0.5
)


dying.watch(die, "boundary", hvd.elastic.TorchState, "behind_boundary")
dying.watch(die, "entry", hvd.elastic.GoingOn, "_let_in")
sizes: list[tuple[int, int]] = []
going: Any = None  # a newcomer enters while it is made
going = hvd.elastic.going_on(
    model, optimizer, loader, schedule=schedule,
    on_change=lambda before, now: sizes.append((before, now)),
)  # fmt: skip
member = hvd.elastic.member()


inner = optimizer.optimizer if accelerator else optimizer
inner.register_step_post_hook(lambda *_: die("update"))


def evaluate() -> float:
    net.eval()
    with torch.no_grad():
        mine = slice(dist.get_rank(), None, dist.get_world_size())
        right = (net(X[mine]).argmax(1) == Y[mine]).sum().reshape(1)
    net.train()
    if accelerator:
        die("evaluation")
        return int(accelerator.gather_for_metrics(right).sum()) / SAMPLES
    found: list[Any] = [None] * dist.get_world_size()
    die("evaluation")
    dist.all_gather_object(found, int(right))
    return sum(found) / SAMPLES


def weights() -> torch.Tensor:
    return torch.cat([value.detach().flatten().double() for value in net.parameters()])


def changes_nothing(before: tuple[int, torch.Tensor], burnt: int) -> None:
    """A turn that was burnt, unless another rank has made it and has sent its state."""
    position, known = before
    if going.burnt > burnt and going.state._marks.position == position:
        assert torch.equal(known, weights()), "a burnt turn has changed the weights"


before = 0, weights()
whole: list[tuple[int, int]] = []  # where each step that was whole has begun: epoch and sample
burnt, log, accuracies = 0, [], []
for epoch in going.epochs(1_000_000):
    at = None
    for number, (x, y, _) in enumerate(going.loader):
        if at is not None and burnt == going.burnt:
            whole.append(at)
        changes_nothing(before, burnt)
        before = going.state._marks.position, weights()
        burnt, at = going.burnt, (going.cursor.epoch, going.cursor.sample)
        if (number + 1) % ACCUMULATE:
            with model.no_sync():
                F.cross_entropy(model(x), y).backward()
            continue
        loss = F.cross_entropy(model(x), y)
        if accelerator:
            accelerator.backward(loss)
        else:
            loss.backward()
        die("gate")
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        die("tail")
        shown = loss.detach().clone()
        dist.all_reduce(shown)
        log.append(float(shown) / dist.get_world_size())
    if at is not None and burnt == going.burnt:
        whole.append(at)
    burnt = going.burnt
    die("validation")
    total = torch.ones(1)
    dist.all_reduce(total, group=own)
    assert total == dist.get_world_size(own) == dist.get_world_size(), total
    die("second")
    dist.broadcast(total, 0)
    dist.barrier()
    accuracies.append(going.region(evaluate))
    if has_come_to_its_end(epoch + 1):
        break
with open(f"end.{member}", "w") as file:
    json.dump(
        {
            "weights": weights().tolist(), "turns": going.turn.begun, "burnt": going.burnt,
            "schedule": schedule.last_epoch, "whole": whole, "sizes": sizes, "pid": os.getpid(),
            "accuracies": accuracies, "log": log, "steps": going.state._marks.position,
            "place": [dist.get_rank(), dist.get_world_size()],
        },
        file,
    )  # fmt: skip
