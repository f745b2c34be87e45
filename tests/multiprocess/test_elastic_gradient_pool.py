"""All members of an elastic job have their gradients in the pool, and reduce them in place: those
that stay when ranks die, and those that come.

Each member makes three steps in each generation, and writes how the gradients were reduced to
`told.<generation>.<member>`. A newcomer comes when the survivors have written.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest
from installed import needs_installed
from launched import WAIT_FOR, Job

needs_installed("torch")

pytestmark = [pytest.mark.watchdog(240), pytest.mark.costly]

PYTHON = sys.executable

PROGRAM = (
    WAIT_FOR
    + """
import json, signal
import torch
import hvdlite
import hvdlite.torch as hvd
from hvdlite.adapter import pool

MEMBER = int(os.environ["HVDLITE_MEMBER"])
torch.set_num_threads(1)
{before}
hvd.init()
torch.manual_seed(1)
net = torch.nn.Sequential(*[torch.nn.Linear(256, 256, bias=False) for _ in range(2)])
optimizer = torch.optim.SGD(net.parameters(), lr=1e-5)
optimizer = hvd.DistributedOptimizer(optimizer, net.named_parameters())
state = hvd.elastic.TorchState(net, optimizer)

def tell():
    told = {{
        "size": hvd.size(),
        "inside": all(pool.contains(p.grad.data_ptr()) for p in net.parameters()),
        "in place": hvdlite.metrics()["carried_by"].get("shm in place", {{}}).get("allreduce", 0),
    }}
    name = f"told.{{hvd.elastic.generation()}}.{{MEMBER}}"
    with open("tmp." + name, "w") as file:
        json.dump(told, file)
    os.replace("tmp." + name, name)

@hvd.elastic.run
def train(state):
    steps = 0
    while steps < 3 or hvd.elastic.generation() < {last}:
        optimizer.zero_grad(set_to_none={to_none})
        net(torch.ones(2, 256)).sum().backward()
        optimizer.step()
        steps += 1
        if steps == 3:
            tell()
            happens(hvd.elastic.generation())
        state.commit()

def happens(generation): pass
{happens}
train(state)
"""
)


def _train(job: Job, arguments: str, last: int, **of_the_program: str) -> dict[str, Any]:
    """What was told, by generation and member."""
    given = {"before": "", "happens": "", "to_none": "True"} | of_the_program
    program = job.script(PROGRAM.format(last=last, **given))
    job.end_well(*arguments.split(), PYTHON, program)
    assert job.pids() == []
    told = {path.name[5:]: json.loads(path.read_text()) for path in job.directory.glob("told.*")}
    for whose, found in told.items():
        shared = found["size"] > 1
        assert not shared or (found["inside"] and found["in place"] >= 3), (whose, told)
    return {whose: found["size"] for whose, found in told.items()}


DIES = """
def happens(generation):
    if (generation, MEMBER) == (1, 2):
        wait_for(*(f"told.1.{each}" for each in FIRST))
        os.kill(os.getpid(), signal.SIGKILL)
"""


def test_survivors_of_a_death_and_the_newcomer_reduce_in_place(job: Job) -> None:
    before = 'FIRST = (1, 2, 3)\nif MEMBER == 4: wait_for("told.2.1", "told.2.3")'
    sizes = _train(job, "-np 3 --min-np 1", last=3, before=before, happens=DIES)
    assert sizes == {
        "1.1": 3, "1.2": 3, "1.3": 3, "2.1": 2, "2.3": 2, "3.1": 3, "3.3": 3, "3.4": 3
    }  # fmt: skip


def test_a_rank_that_was_alone_for_a_while_returns_to_the_pool(job: Job) -> None:
    before = 'FIRST = (1, 2)\nif MEMBER == 3: wait_for("told.2.1")'
    sizes = _train(job, "-np 2 --min-np 1", last=3, before=before, happens=DIES)
    assert sizes == {"1.1": 2, "1.2": 2, "2.1": 1, "3.1": 2, "3.3": 2}


GROWS = """
def happens(generation):
    if generation == 1:
        with open("more", "w") as file:
            file.write("localhost slots=2\\n")
        os.replace("more", "hosts")
"""


def test_a_job_that_begins_with_one_rank_and_grows_uses_the_pool(job: Job) -> None:
    (job.directory / "hosts").write_text("localhost slots=1\n")
    before = 'if MEMBER > 1: wait_for("told.1.1")'
    arguments = "-np 1 --min-np 1 --hostfile hosts"
    # Gradients that were allocated while the rank was alone are kept by zero_grad().
    sizes = _train(job, arguments, last=2, before=before, happens=GROWS, to_none="False")
    assert sizes == {"1.1": 1, "2.1": 2, "2.2": 2}
