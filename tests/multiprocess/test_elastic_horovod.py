"""Elastic programs in the words of Horovod's users, under the alias and horovodrun's flags."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
from typing import Any

import pytest
from installed import needs_installed
from launched import Job, ended

PYTHON = sys.executable
TWO_HOSTS = ("-H", "localhost:2,127.0.0.1:2")
QUICK = ("--blacklist-cooldown-range", "1", "1")

# What all programs begin with: `tell(key=value)` prints a line that the test reads.
TELL = """
import json, os, signal, sys, time
def tell(**what): print("told", json.dumps(what), flush=True)
def die(): os.kill(os.getpid(), signal.SIGKILL)
"""


def _told(out: bytes) -> list[dict[str, Any]]:
    lines = [line.partition(":told ")[2] for line in out.decode().splitlines()]
    return [json.loads(line) for line in lines if line]


def _run(job: Job, program: str, *flags: str) -> list[dict[str, Any]]:
    done = job.end_well("--horovodrun", *flags, PYTHON, job.script(TELL + program))
    assert job.pids() == []
    return _told(done.stdout)


TORCH = """
import torch
import horovod.torch as hvd

hvd.init()
torch.manual_seed(hvd.rank())
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01 * hvd.size())
optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
sampler = hvd.elastic.ElasticSampler(range(64), shuffle=False)
loader = torch.utils.data.DataLoader(sampler.dataset, sampler=sampler, batch_size=2)

def on_state_reset():
    for group in optimizer.param_groups:
        group["lr"] = 0.01 * hvd.size()

@hvd.elastic.run
def train(state):
    for state.epoch in range(state.epoch, 2):
        for batch, indices in enumerate(loader):
            dies = os.environ["HOROVOD_HOSTNAME"] == "localhost" and hvd.rank() == 0
            if dies and state.epoch == 0 and batch == 3:
                die()
            optimizer.zero_grad()
            model(indices.float().unsqueeze(1).expand(-1, 4) / 64).sum().backward()
            optimizer.step()
            sampler.record_batch(batch, 2)
            state.batch += 1
            state.commit()
        sampler.set_epoch(state.epoch + 1)
        state.commit()
    return state.batch

state = hvd.elastic.TorchState(
    model=model, optimizer=optimizer, sampler=sampler, epoch=0, batch=0)
state.register_reset_callbacks([on_state_reset])
batches = train(state)
tell(rank=hvd.rank(), size=hvd.size(), local=hvd.local_size(), host=os.environ["HOROVOD_HOSTNAME"],
     batches=batches, lr=optimizer.param_groups[0]["lr"], weights=model.weight.sum().item(),
     elastic=os.environ["HOROVOD_ELASTIC"])
"""


@pytest.mark.costly
@pytest.mark.watchdog(120)
def test_a_host_is_given_up_with_its_first_dead_rank(job: Job) -> None:
    needs_installed("torch")
    told = _run(job, TORCH, "-np", "4", "--min-np", "2", *TWO_HOSTS)
    assert sorted(line["rank"] for line in told) == [0, 1]
    for line in told:
        assert (line["size"], line["local"], line["elastic"]) == (2, 2, "1")
        assert line["host"] == "127.0.0.1" and line["lr"] == pytest.approx(0.02)
        # 3 batches of four ranks, then what is left of 64 samples and a whole epoch, of two ranks
        assert line["batches"] == 3 + (64 - 3 * 8) // 4 + 64 // 4
    assert told[0]["weights"] == told[1]["weights"]


OBJECTS = """
import horovod.torch as hvd
from horovod.common.elastic import ObjectState
from horovod.common.exceptions import HorovodInternalError, HostsUpdatedInterrupt
from horovod.torch.mpi_ops import rank
import torch
hvd.init()
"""

ON_ALL_RANKS = (
    OBJECTS
    + """
from horovod.runner.elastic.worker import HostUpdateResult
state = ObjectState(hvd.broadcast_object, hvd.rank, batch=0, calls=0)

@hvd.elastic.run
def train(state):
    state.calls += 1
    while state.batch < 12:
        state.batch += 1
        if state.batch == 5 and hvd.rank() == 1:  # one rank only
            state.on_hosts_updated(int(time.time()), HostUpdateResult.removed)
        try:
            state.commit()
        except HostsUpdatedInterrupt as interrupt:
            tell(rank=hvd.rank(), batch=state.batch, skip_sync=interrupt.skip_sync)
            raise
    return state.batch

updated = lambda: state._last_updated_timestamp
assert train(state) == 12 and state.calls == 2 and updated() > 0, (state.calls, updated())
"""
)


@pytest.mark.costly
@pytest.mark.watchdog(120)
def test_all_ranks_are_interrupted_at_the_same_commit(job: Job) -> None:
    needs_installed("torch")
    told = _run(job, ON_ALL_RANKS, "-np", "3", "--min-np", "1")
    assert sorted(line["rank"] for line in told) == [0, 1, 2]
    assert {(line["batch"], line["skip_sync"]) for line in told} == {(5, True)}


# A state with ways of its own: a file is its copy. What it does is told in its order.
OWN_STATE = """
import horovod.torch as hvd
from horovod.common.elastic import State
hvd.init()
done = []

class Mine(State):
    def __init__(self):
        super().__init__(hvd.broadcast_object, hvd.rank)
        self.batch, self.saved = 0, 0
    def save(self): self.saved = self.batch
    def restore(self):
        done.append(f"restore {self.batch} -> {self.saved}")
        self.batch = self.saved
    def sync(self):
        done.append("sync")
        self.batch = self._bcast_object(self.batch)
        self.save()
    def reset(self): done.append("reset")

state = Mine()
state.register_reset_callbacks([lambda: done.append("first"), lambda: done.append("second")])

@hvd.elastic.run
def train(state):
    done.append(f"train {state.batch}")
    while state.batch < 9:
        state.batch += 1
        if state.batch == 5:
            open(f"five.{hvd.rank()}", "w").close()
        if state.batch == 5 and hvd.rank() == 2:
            # Not while the others are still inside commit() of batch 4.
            while not (os.path.exists("five.0") and os.path.exists("five.1")):
                time.sleep(0.01)  # poll
            die()
        hvd.barrier()
        if state.batch % 2 == 0:
            state.commit()

train(state)
tell(rank=hvd.rank(), size=hvd.size(), batch=state.batch, done=done)
"""


@pytest.mark.costly
@pytest.mark.watchdog(120)
def test_a_state_of_the_programs_own_is_restored_reset_and_synchronised(job: Job) -> None:
    needs_installed("torch")
    told = _run(job, OWN_STATE, "-np", "3", "--min-np", "2", "-H", "localhost:2,127.0.0.1:1")
    assert sorted(line["rank"] for line in told) == [0, 1]
    for line in told:
        assert (line["size"], line["batch"]) == (2, 9)
        assert line["done"] == [
            "sync", "train 0", "restore 5 -> 4", "reset", "first", "second", "sync", "train 4"
        ]  # fmt: skip


# As Horovod's own programs wait for hosts: rank 0 looks into the queue of messages.
WAITS = (
    OBJECTS
    + """
state = ObjectState(hvd.broadcast_object, hvd.rank, batch=0, sizes=[], hosts=[])

class Hears:
    heard = []
    def on_hosts_updated(self, timestamp, res): self.heard.append(int(res))

from horovod.common.elastic import notification_manager
notification_manager.register_listener(Hears())

@hvd.elastic.run
def train(state):
    state.sizes = state.sizes + [hvd.size()]
    wanted = {2: "localhost:2\\n127.0.0.1:1\\n", 3: "127.0.0.1:1\\n"}.get(hvd.size())
    if wanted and hvd.rank() == 0:
        with open("next", "w") as file: file.write(wanted)
        os.replace("next", "hosts")
        while state._host_messages.empty(): time.sleep(0.01)  # poll
        state._last_updated_timestamp = 0
    hvd.allreduce(torch.ones(1), name="wait")
    if hvd.size() > 1:
        while True: state.commit()
    return state.sizes

sizes = train(state)
tell(rank=hvd.rank(), sizes=sizes, host=os.environ["HOROVOD_HOSTNAME"], heard=Hears.heard)
"""
)


@pytest.mark.costly
@pytest.mark.watchdog(120)
def test_hosts_come_and_go_as_the_script_says(job: Job) -> None:
    needs_installed("torch")
    hosts = job.directory / "hosts"
    hosts.write_text("localhost:2\n")
    script = job.directory / "discover.sh"
    script.write_text("#!/bin/sh\ncat hosts\n")
    os.chmod(script, 0o755)
    told = _run(
        job, WAITS, "-np", "2", "--min-num-proc", "1", "--max-num-proc", "4",
        "--host-discovery-script", str(script), *QUICK,
    )  # fmt: skip
    assert told == [{"rank": 0, "sizes": [2, 3, 1], "host": "127.0.0.1", "heard": told[0]["heard"]}]
    assert 1 in told[0]["heard"]


# ---- horovod.run(fn, min_num_proc=...)

RUN = """
import horovod
from horovod.common.exceptions import HorovodInternalError

def train(dies):
    import os, signal, horovod.torch as hvd
    hvd.init()
    state = hvd.elastic.TorchState(batch=0)

    @hvd.elastic.run
    def loop(state):
        while state.batch < 6 or hvd.size() < 3:
            if state.batch == 3 and int(os.environ["HVDLITE_MEMBER"]) in dies:
                os.kill(os.getpid(), signal.SIGKILL)
            hvd.barrier()
            state.batch += 1
            state.commit()
        return hvd.rank(), hvd.size(), int(os.environ["HVDLITE_MEMBER"])
    return loop(state)
"""


def _function(job: Job, program: str) -> list[dict[str, Any]]:
    """Of a program that starts its ranks itself."""
    job.launcher = ("-m", "hvdlite.compat")
    done = job.end_well(job.script(TELL + program))
    assert job.pids() == []
    return [json.loads(x[5:]) for x in done.stdout.decode().splitlines() if x.startswith("told ")]


@pytest.mark.costly
@pytest.mark.watchdog(180)
def test_a_function_returns_what_the_last_generations_first_ranks_return(job: Job) -> None:
    needs_installed("torch")
    call = "horovod.run(train, args=([1],), num_proc=3, min_num_proc=2, cooldown_range=[1, 1])"
    (told,) = _function(job, RUN + f"\ntell(results={call})")
    results = told["results"]
    assert [(rank, size) for rank, size, _ in results] == [(0, 3), (1, 3)]
    assert [member for *_, member in results] == [2, 3]


@pytest.mark.watchdog(120)
def test_an_elastic_function_needs_no_init_and_finds_its_hosts_by_a_script(job: Job) -> None:
    program = """
import horovod
def place(): return int(os.environ["HOROVOD_RANK"]), os.environ["HOROVOD_HOSTNAME"]
tell(results=sorted(horovod.run(
    place, num_proc=2, min_num_proc=2, host_discovery_script="echo localhost", slots=2)))
"""
    (told,) = _function(job, program)
    assert told["results"] == [[0, "localhost"], [1, "localhost"]]


@pytest.mark.costly
@pytest.mark.watchdog(180)
def test_a_function_that_fails_on_every_member_raises_its_exception(job: Job) -> None:
    needs_installed("torch")
    program = """
import horovod
def train():
    import horovod.torch as hvd
    hvd.init()
    def loop(state):
        hvd.barrier()
        if hvd.rank() == 1: raise ValueError("bad sample 77")
        hvd.barrier()
    hvd.elastic.run(loop)(hvd.elastic.TorchState(batch=0))
try:
    horovod.run(train, num_proc=2, min_num_proc=2, cooldown_range=(0.01, 0.01))
except RuntimeError as error:
    tell(error=str(error), cause=repr(error.__cause__))
"""
    (told,) = _function(job, program)
    assert "That is the program's fault" in told["error"] and "in loop" in told["error"]
    assert told["cause"] == "ValueError('bad sample 77')"


@pytest.mark.watchdog(120)
def test_a_rank_of_an_elastic_job_may_run_a_job_of_its_own(job: Job) -> None:
    program = """
import hvdlite
inner = hvdlite.run(lambda: os.environ.get("HVDLITE_MEMBER"), num_proc=2)
tell(inner=inner, member=os.environ["HVDLITE_MEMBER"])
"""
    told = _run(job, program, "-np", "1", "--min-np", "1")
    assert told == [{"inner": [None, None], "member": "1"}]


@pytest.mark.costly
@pytest.mark.watchdog(120)
def test_sigterm_takes_its_effect_once_the_ranks_of_a_function_have_left(job: Job) -> None:
    needs_installed("torch")
    program = """
import horovod
def train():
    import horovod.torch as hvd
    hvd.init()
    def loop(state):
        open(f"trains.{hvd.rank()}", "w").close()
        while True:
            hvd.barrier()
            state.commit()
    hvd.elastic.run(loop)(hvd.elastic.TorchState())
horovod.run(train, num_proc=2, min_num_proc=1)
"""
    job.launcher = ("-m", "hvdlite.compat")
    process = job.start(job.script(program))
    job.wait_for_files(["trains.0", "trains.1"])
    process.send_signal(signal.SIGTERM)
    process.communicate()
    assert process.returncode == -signal.SIGTERM
    assert job.pids() == []


# ---- --torch-env, --collapse and --monitor

TORCH_ENV = """
import torch.distributed as dist
import hvdlite as hvd
hvd.init()
state = hvd.elastic.ObjectState(step=0)

@hvd.elastic.run
def train(state):
    dist.init_process_group("gloo")
    try:
        place = dist.get_rank(), dist.get_world_size(), os.environ["LOCAL_RANK"]
        assert place == (hvd.rank(), hvd.size(), str(hvd.local_rank())), place
        while state.step < 6 or hvd.size() < 3:
            if state.step == 3 and os.environ["HVDLITE_MEMBER"] == "1":
                die()
            ones = torch.ones(1)
            dist.all_reduce(ones)
            assert ones.item() == hvd.size()
            state.step += 1
            state.commit()
        hvd.barrier()  # rank 0 serves the others until all have met
    except RuntimeError as error:  # of torch, which hears of the death in its own way
        hvd.barrier()
        raise hvd.HorovodInternalError(str(error)) from error
    finally:
        dist.destroy_process_group()

import torch
train(state)
tell(rank=hvd.rank(), run=os.environ["TORCHELASTIC_RUN_ID"].startswith("hvdlite-"),
     member=os.environ["HVDLITE_MEMBER"], count=os.environ["TORCHELASTIC_RESTART_COUNT"])
"""


@pytest.mark.costly
@pytest.mark.watchdog(180)
def test_torchruns_variables_are_those_of_the_present_generation(job: Job) -> None:
    needs_installed("torch")
    told = _run(job, TORCH_ENV, "--torch-env", "-np", "3", "--min-np", "1", *QUICK)
    assert sorted((line["rank"], line["member"]) for line in told) == [
        (0, "2"), (1, "3"), (2, "4")
    ]  # fmt: skip
    assert {(line["run"], line["count"]) for line in told} == {(True, "2")}


TORCH_INIT = """
import torch, torch.distributed as dist
import hvdlite as hvd, hvdlite.torch.distributed
early = "early" in sys.argv
if early:
    hvdlite.torch.distributed.init()
hvd.init()
state = hvd.elastic.ObjectState(step=0)

@hvd.elastic.run
def train(state):
    if not early:
        hvdlite.torch.distributed.init()
        assert dist.get_world_size() == hvd.size() and dist.get_rank() == hvd.rank()
    while not os.path.exists("heard") if early else state.step < 6 or hvd.size() < 2:
        if state.step == 3 and os.environ["HVDLITE_MEMBER"] == "1":
            die()
        ones = torch.ones(1)
        if early:
            hvd.barrier()
        else:
            dist.all_reduce(ones)
            assert ones.item() == hvd.size()
        state.step += 1
        state.commit()

try:
    train(state)
except RuntimeError as error:
    tell(error=str(error))
    open("heard", "w").close()
    raise
tell(size=hvd.size(), generation=hvd.elastic.generation())
"""


@pytest.mark.costly
@pytest.mark.watchdog(180)
def test_init_of_torch_distributed_makes_a_group_in_each_generation(job: Job) -> None:
    needs_installed("torch")
    told = _run(job, TORCH_INIT, "-np", "2", "--min-np", "1", *QUICK)
    assert [line["size"] for line in told] == [2, 2] and told[0]["generation"] > 1


@pytest.mark.costly
@pytest.mark.watchdog(180)
def test_a_newcomer_that_calls_init_of_torch_distributed_too_early_is_told_so(job: Job) -> None:
    needs_installed("torch")
    flags = ("--horovodrun", "-np", "2", "--min-np", "1", *QUICK)
    done = job.end_well(*flags, PYTHON, job.script(TELL + TORCH_INIT), "early")
    errors = [line["error"] for line in _told(done.stdout) if "error" in line]
    assert "Call init() at the beginning of the function under @hvd.elastic.run" in errors[0]
    assert "this default group ends with the first generation" in done.stderr.decode()


PRINTS = """
import hvdlite as hvd, numpy as np
hvd.init()
state = hvd.elastic.ObjectState(step=0)

@hvd.elastic.run
def train(state):
    print(f"generation {hvd.elastic.generation()} trains", flush=True)
    while state.step < 4 or hvd.size() < 3:
        if state.step == 2 and os.environ["HVDLITE_MEMBER"] == "1":
            die()
        hvd.barrier()
        state.step += 1
        state.commit()
    hvd.barrier()

train(state)
print("the end", flush=True)
"""


def _with(job: Job, setting: str) -> None:
    """The launcher, with other periods than a person likes."""
    script = (
        "import sys\nfrom hvdlite.launch import cli, collapse\n"
        f"from hvdlite.launch.monitor import view\n{setting}\nsys.exit(cli.main())\n"
    )
    job.launcher = (job.script(script, "launcher.py"),)


@pytest.mark.watchdog(120)
def test_equal_lines_are_printed_once_with_the_ranks_of_their_generation(job: Job) -> None:
    _with(job, "collapse.MOMENT_SECONDS = 600")
    program = job.script(TELL + PRINTS)
    done = job.end_well("--collapse", "-np", "3", "--min-np", "1", *QUICK, PYTHON, program)
    assert done.stdout.decode().splitlines() == [
        "[0-2]<stdout>:generation 1 trains",
        "[0-1]<stdout>:generation 2 trains",
        "[0-2]<stdout>:generation 3 trains",
        "[0-2]<stdout>:the end",
    ]


SHOWN = """
import hvdlite as hvd
if os.environ["HVDLITE_MEMBER"] == "4":
    while not os.path.exists("go"): time.sleep(0.01)  # poll
hvd.init()
state = hvd.elastic.ObjectState(step=0)

@hvd.elastic.run
def train(state):
    while not os.path.exists("enough"):
        if state.step == 2 and os.environ["HVDLITE_MEMBER"] == "1":
            die()
        hvd.barrier()
        state.step += 1
        state.commit()
        time.sleep(0.01)  # poll

train(state)
"""


@pytest.mark.costly
@pytest.mark.watchdog(180)
def test_the_monitor_shows_generation_members_and_empty_slots(job: Job) -> None:
    _with(job, "view.LinesDisplay.seconds = 0.5")
    program = job.script(TELL + SHOWN)
    cooldown = ("--blacklist-cooldown-range", "10", "10")
    process = job.start("--monitor", "-np", "3", "--min-np", "1", *cooldown, PYTHON, program)
    assert process.stderr is not None
    shown = [
        r"generation 2; empty after a failure: localhost:0 for \d+ s; 2 ranks, .* operations/s",
        r"generation 2; starting: member 4 on localhost; 2 ranks, ",
        r"generation 3; 3 ranks, .* operations/s",
    ]
    lines: list[str] = []
    for expected in shown:
        while not lines or not re.search(expected, lines[-1]):
            line = process.stderr.readline().decode()
            assert line, lines
            lines.append(line)
        if "starting" in expected:
            (job.directory / "go").touch()
    (job.directory / "enough").touch()
    ended(process)
    assert job.pids() == []
