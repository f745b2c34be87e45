"""Newcomers that do not fit are refused by name, and the others go on: row 32 of the design."""

from __future__ import annotations

import re
import sys

import pytest
from launched import Job

# Member 2 of three dies. The first newcomer in its slot does not fit, and the next one does.
PROGRAM = """
import os, signal
MEMBER = int(os.environ["HVDLITE_MEMBER"])
unfit = MEMBER == 4
width, parts = 3, {{}}
import hvdlite
{unfit}
import torch
import hvdlite.torch as hvd
hvd.init()
torch.manual_seed(MEMBER)
model = torch.nn.Linear(4, width)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
state = hvd.elastic.TorchState(model, optimizer, steps=0, **parts)

@hvd.elastic.run
def train(state):
    while state.steps < 12 or hvd.size() < 3:
        if state.steps == 5 and MEMBER == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        optimizer.zero_grad()
        torch.manual_seed(state.steps)
        model(torch.randn(16, 4)).square().mean().backward()
        optimizer.step()
        state.steps += 1
        state.commit()
    return sum(float(p.sum()) for p in model.parameters())

print("trained:", MEMBER, os.getpid(), train(state), flush=True)
"""


@pytest.mark.costly
@pytest.mark.parametrize(
    ("unfit", "why"),
    [
        ("if unfit: width = 5", "model.weight is float32[5, 4] there, and float32[3, 4] in"),
        ("if unfit: hvdlite.__version__ = '9.9'", "it runs hvdlite 9.9, and hvdliterun"),
        (
            "import hvdlite.elastic\nif unfit: parts['data'] = hvdlite.elastic.Cursor(10, 1)",
            "the list of the state's parts is model, optimizer, data there, and model, optimizer",
        ),
        (
            "if unfit: os.environ['HVDLITE_SHM_CHUNK_BYTES'] = '8192'",
            "HVDLITE_SHM_CHUNK_BYTES is 8192 there, and ",
        ),
    ],
    ids=["shapes", "release", "program", "settings"],
)
def test_a_newcomer_that_does_not_fit_is_refused_and_the_next_one_comes(
    job: Job, unfit: str, why: str
) -> None:
    cooldown = ("--blacklist-cooldown-range", "0.01", "0.02")
    program = job.script(PROGRAM.format(unfit=unfit))
    done = job.end_well("-np", "3", "--min-np", "1", *cooldown, sys.executable, program)
    err = done.stderr.decode()
    assert f"is refused: {why}" in err and "member 4 on " in err, err
    trained = re.findall(r"trained: (\d+) \d+ (\S+)", done.stdout.decode())
    members = {int(member) for member, _ in trained}
    assert {1, 3} < members and members.isdisjoint({2, 4}) and len(members) == 3
    assert len({weights for _, weights in trained}) == 1
    assert "the job has failed" not in err and "generation 1 has ended: " in err
    assert job.pids() == []
