"""Loops over DistributedDataParallel that go on where they are when ranks die and come."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from dying_jobs import ended, kills_at_random
from installed import needs_installed
from launched import Job
from others import PYTHON
from tier import TIER, one_of

needs_installed("torch")

PROGRAM = str(Path(__file__).with_name("going_on_program.py"))
STEPS = 8  # of an epoch

IN_A_TURN = (
    "forward", "backward", "gate", "update", "tail", "before-boundary", "behind-boundary",
)  # fmt: skip
BETWEEN = ("validation", "second", "evaluation")


def ends(job: Job, kills: list[str], *, epochs: int = 3, **more: str) -> list[Any]:
    """What the processes know that have come to the end, by rank. They agree."""
    found = ended(job, PROGRAM, kills, epochs, **more)
    first = found[0]
    for other in found[1:]:
        for what in ("weights", "turns", "schedule", "steps"):
            assert other[what] == first[what], what
        both = min(len(first["accuracies"]), len(other["accuracies"]))
        assert other["accuracies"][-both:] == first["accuracies"][-both:]
    return found


def each_sample_once(end: Any) -> None:
    """Each step of each epoch once, from the first one of this process on."""
    whole = [tuple(each) for each in end["whole"]]
    first = end["steps"] - len(whole)
    step = 96 // STEPS
    assert whole == [divmod(i * step, 96) for i in range(first, end["steps"])]
    assert end["schedule"] == end["steps"] and end["steps"] % STEPS == 0


@pytest.mark.costly
@pytest.mark.watchdog(150)
@pytest.mark.parametrize("rank", [0, 1])
@pytest.mark.parametrize("moment", IN_A_TURN)
def test_a_rank_dies_in_a_turn(job: Job, moment: str, rank: int) -> None:
    (one, other) = ends(job, [f"{rank} 5 {moment}"])
    for end in (one, other):
        each_sample_once(end)
        assert end["steps"] == 3 * STEPS and end["burnt"] <= 1, end
        assert end["turns"] == end["steps"] + end["burnt"]
        assert end["sizes"] == [[3, 2]]
        assert end["accuracies"][-1] > 0.7


@pytest.mark.costly
@pytest.mark.watchdog(150)
@pytest.mark.parametrize("moments", [("backward", "backward"), ("tail", "forward")])
def test_two_ranks_die_at_once(job: Job, moments: tuple[str, str]) -> None:
    (end,) = ends(job, [f"{rank} 5 {moment}" for rank, moment in enumerate(moments)])
    each_sample_once(end)
    assert end["steps"] == 3 * STEPS and end["burnt"] <= 2, end


@pytest.mark.costly
@pytest.mark.watchdog(150)
@pytest.mark.parametrize("moment", BETWEEN)
def test_a_rank_dies_between_turns(job: Job, moment: str) -> None:
    """No turn is burnt: the operation is done again, or the region."""
    for end in ends(job, [f"1 8 {moment}"]):
        each_sample_once(end)
        assert end["burnt"] == 0 and end["turns"] == 3 * STEPS


@pytest.mark.costly
@pytest.mark.watchdog(150)
def test_the_root_of_a_broadcast_between_turns_dies(job: Job) -> None:
    """Nobody has what it was about to send."""
    done = job.run(
        "-np", "3", "--min-np", "2", "--reset-limit", "1", PYTHON, PROGRAM,
        KILLS="0 8 second", EPOCHS="3",
    )  # fmt: skip
    assert done.returncode != 0
    assert b"going_on's region(function)" in done.stderr, done.stderr.decode()


REFUSED = """
import os, torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, TensorDataset
import hvdlite.torch as hvd, hvdlite.torch.distributed
def tell(try_it):
    try:
        try_it()
    except (ValueError, RuntimeError) as error:
        os.write(1, f"{error}\\n".encode())
loader = DataLoader(TensorDataset(torch.ones(4, 2)), batch_size=2)
own = DataLoader(loader.dataset, batch_sampler=[[0], [1]])
weighted = DataLoader(loader.dataset, sampler=torch.utils.data.SubsetRandomSampler([0, 1]))
net = torch.nn.Linear(2, 1)
sgd, lbfgs = torch.optim.SGD(net.parameters(), lr=1.0), torch.optim.LBFGS(net.parameters())
go = hvd.elastic.going_on
dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
hvd.init()
model = DDP(net)
tell(lambda: go(model, sgd, loader))
dist.destroy_process_group()
hvdlite.torch.distributed.init()
model = DDP(net)
tell(lambda: go(model, lbfgs, loader))
tell(lambda: go(model, hvd.DistributedOptimizer(sgd), loader))
tell(lambda: go(net, sgd, loader))
tell(lambda: go(model, None, loader))
tell(lambda: go(model, sgd, own))
tell(lambda: go(model, sgd, weighted))
tell(lambda: dist.group.WORLD.get_reconfigure_handle())
"""


@pytest.mark.watchdog(100)
def test_what_is_refused(job: Job) -> None:
    program = job.script(REFUSED)
    done = job.end_well("-np", "1", "--min-np", "1", PYTHON, program)
    told = done.stdout.decode().splitlines()
    expected = (
        "torch's default group is not hvdlite's", "optimizer is a LBFGS, whose step computes",
        "which adds gradients by itself", "there is no DistributedDataParallel",
        "there is no torch.optim.Optimizer", "no batch_sampler of its own",
        "a SubsetRandomSampler, whose order would be lost",
        "the members of this process group cannot change",
    )  # fmt: skip
    assert len(told) == len(expected), told
    for line, words in zip(told, expected, strict=True):
        assert words in line, (line, words)


@pytest.mark.watchdog(200)
def test_a_newcomer_comes_in_the_middle(job: Job) -> None:
    first, second, third = ends(job, ["0 5 backward"], RANKS="3")
    each_sample_once(first)
    each_sample_once(second)
    assert third["burnt"] == 0 and third["sizes"] == [[1, 3]]
    assert len(third["whole"]) < len(first["whole"])
    assert [tuple(each) for each in first["whole"]][-len(third["whole"]) :] == [
        tuple(each) for each in third["whole"]
    ]


@pytest.mark.costly
@pytest.mark.watchdog(200)
def test_groups_that_the_program_has_made_of_all_ranks_go_on(job: Job) -> None:
    """DistributedDataParallel is over one of them, and a newcomer has made it, too."""
    first, _, third = ends(job, ["1 5 backward"], RANKS="3", GROUP="1")
    each_sample_once(first)
    assert third["sizes"] == [[1, 3]]


def test_ranks_with_different_numbers_of_groups_are_told_so() -> None:
    from hvdlite.torch.in_place.loop import _check_number

    _check_number([2, 2])
    with pytest.raises(RuntimeError, match="different numbers of process groups: \\[2, 2, 1\\]"):
        _check_number([2, 2, 1])


@pytest.mark.costly
@pytest.mark.watchdog(200)
@pytest.mark.parametrize("moment", ["before-entry", "behind-entry"])
@pytest.mark.parametrize("rank", [0, 2])
def test_a_rank_dies_while_a_newcomer_comes(job: Job, moment: str, rank: int) -> None:
    """Rank 2 is the newcomer."""
    kills = ["1 5 tail", f"{rank} 0 {moment}"]
    found = ends(job, kills, RANKS="3")
    each_sample_once(found[0])


@pytest.mark.costly
@pytest.mark.watchdog(150)
@pytest.mark.parametrize(
    "how",
    [
        {"ACCUMULATE": "4"},
        {"WORKERS": "2"},
        {"GROUP": "1"},
        {"DDP": '{"static_graph": true}'},
        {"DDP": '{"find_unused_parameters": true}'},
        {"DDP": '{"gradient_as_bucket_view": true, "broadcast_buffers": false}'},
    ],
    ids=lambda how: "-".join(how.keys()) if "DDP" not in how else how["DDP"][2:20].strip('": '),
)
def test_ways_of_training(job: Job, how: dict[str, str]) -> None:
    (one, other) = ends(job, ["1 2 backward"], **how)
    if "ACCUMULATE" not in how:
        each_sample_once(one)
        each_sample_once(other)
    assert one["burnt"] == 1 and one["schedule"] == one["steps"]


@pytest.mark.costly
@pytest.mark.watchdog(900)
@pytest.mark.parametrize("what", ["", "ACCELERATE"])
@pytest.mark.parametrize("seed", range(10) if TIER == "all" else one_of(range(10), "deaths"))
def test_deaths_at_any_time(job: Job, seed: int, what: str) -> None:
    """Five in each job, of any rank, with newcomers; rank 0 in a third of them."""
    if what:
        needs_installed("accelerate")
    kills = kills_at_random(seed, (*IN_A_TURN, *BETWEEN[:1], *BETWEEN[2:]))
    found = ends(job, kills, RANKS="3", ALIVE="3", epochs=60, **({what: "1"} if what else {}))
    assert found[0]["accuracies"][-1] > 0.9
    for end in found:
        each_sample_once(end)


COUNTS_ITSELF = """
import os, torch, torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, TensorDataset
import hvdlite.torch as hvd, hvdlite.torch.distributed
hvdlite.torch.distributed.init()
mesh = init_device_mesh("cpu", (dist.get_world_size(),))
model = DDP(torch.nn.Linear(2, 1), device_mesh=mesh)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = DataLoader(TensorDataset(torch.ones(24, 2)), batch_size=2)
going = hvd.elastic.going_on(model, optimizer, loader)
for epoch in range(2):
    for (x,) in going.loader:
        if epoch and hvd.elastic.member() == 2:
            os.kill(os.getpid(), 9)
        optimizer.zero_grad()
        model(x).sum().backward()
        optimizer.step()
total = torch.ones(1)
dist.all_reduce(total, group=mesh.get_group())
print(int(total), flush=True)
"""


@pytest.mark.costly
@pytest.mark.watchdog(150)
def test_a_program_that_counts_its_epochs_itself_ends_well_and_is_told_how_to(job: Job) -> None:
    """Its mesh of all ranks has their group, which goes on."""
    program = job.script(COUNTS_ITSELF)
    done = job.end_well("-np", "3", "--min-np", "2", "--max-np", "3", PYTHON, program)
    assert done.stdout.count(b"stdout>:2") == 2, done.stdout.decode()
    assert done.stderr.count(b"epoch in going.epochs(N)") == 1, done.stderr.decode()
