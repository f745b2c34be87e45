"""An elastic job of torch whose optimizers communicate less: a rank is killed between two averages,
and a newcomer takes its place."""

from __future__ import annotations

import re
import sys

import pytest
from installed import needs_installed
from launched import Job

pytestmark = pytest.mark.costly

# Three trainings side by side. A layer is frozen before the death and thawed behind it. Each step
# copies everything, so that copies come while an average of DiLoCo travels.
PROGRAM = """
import os, signal
import torch
import hvdlite.torch as hvd
torch.set_num_threads(1)
hvd.init()
def net():
    torch.manual_seed(hvd.rank())
    return torch.nn.Sequential(torch.nn.Linear(5, 5), torch.nn.Tanh(), torch.nn.Linear(5, 2))
nets = [net() for _ in range(3)]
adam = torch.optim.Adam(nets[0].parameters(), 0.01)
sgd = torch.optim.SGD(nets[1].parameters(), 0.1, momentum=0.9)
optimizers = [
    hvd.LocalSGD(adam, every=4, momentum="average"),
    hvd.DiLoCo(sgd, every=4, fragments=2, overlap=1),
    hvd.OneBitAdam(nets[2].parameters(), 0.01, freeze_step=4),
]
parts = {f"net{n}": each for n, each in enumerate(nets)}
parts |= {f"optimizer{n}": each for n, each in enumerate(optimizers)}
state = hvd.elastic.TorchState(at=0, copies="always", **parts)

@hvd.elastic.run
def train(state):
    while state.at < 19:
        if state.at == 9 and os.environ["HVDLITE_MEMBER"] == "2":
            os.kill(os.getpid(), signal.SIGKILL)
        x = torch.randn(3, 5, generator=torch.Generator().manual_seed(9 * state.at + hvd.rank()))
        for net, optimizer in zip(nets, optimizers):
            net[0].requires_grad_(not 6 <= state.at < 14)
            optimizer.zero_grad()
            net(x).pow(2).mean().backward()
            optimizer.step()
        state.at += 1
        state.step()
    for optimizer in optimizers[:2]:
        optimizer.sync()

train(state)
for number, net in enumerate(nets):
    mine = torch.cat([p.detach().reshape(-1) for p in net.parameters()])
    everyones = hvd.allgather(mine[None])
    assert mine.isfinite().all() and (everyones == everyones[0]).all(), number
for optimizer in optimizers[:2]:
    assert optimizer._hvd_local_steps._count.steps == 19
    assert optimizer.param_groups[0]["local_steps"]["moved"] == []
steps = [known["step"] for known in optimizers[2].state.values()]
assert steps == [11, 11, 19, 19], steps
print(f"member {os.environ['HVDLITE_MEMBER']} ends in {hvd.elastic.generation()}")
"""


@pytest.mark.watchdog(120)
def test_counts_and_weights_are_right_behind_a_death(job: Job) -> None:
    needs_installed("torch")
    done = job.end_well("-np", "2", "--min-np", "2", sys.executable, job.script(PROGRAM))
    ends = re.findall(r"member (\d) ends in (\d)", done.stdout.decode())
    assert sorted(ends) == [("1", "2"), ("3", "2")]
    assert job.pids() == []
