"""Faults of an elastic job on one machine. The numbers are the rows of the design's table."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path

import pytest
import tier
from elastic_faults import PYTHON, QUICKLY, generations, pid, program
from elastic_history import goes_by, storm
from launched import Job, ended, last_line
from waiting import wait_until

AGAIN_THREE = "hvd.size() == 3 and hvd.elastic.generation() > 1"
# Where member 2 of 3 dies in its first generation, or the first newcomer.
DEATHS = {
    "backward": "handle = None\n"
    "def happens(step):\n"
    "    if (MEMBER, step) == (2, 5):\n"
    "        hvd.allreduce_async(np.ones(3), name='gradient')\n"
    "        die()\n",
    "commit": "def prepare(state):\n"
    "    check = state.check_host_updates\n"
    "    def dies(): die() if (MEMBER, state.steps) == (2, 5) else check()\n"
    "    state.check_host_updates = dies\n",
    "init": "from hvdlite.job import membership\n"
    "arrive = membership.Membership.arrive\n"
    "def dies(self):\n"
    "    found = arrive(self)\n"
    "    return die() if MEMBER == 2 else found\n"
    "membership.Membership.arrive = dies\n",
    "entered": "from hvdlite.job import membership\n"
    "if MEMBER == 2: membership.Membership.entered = lambda *_: die()\n",
    "first sync": "def prepare(state):\n    if MEMBER == 2: state._receive = lambda *_: die()\n",
    "sync": "def prepare(state):\n"
    "    if MEMBER == 4: state._receive = lambda *_: die()\n"
    "def happens(step):\n"
    "    if (MEMBER, step) == (2, 5): die()\n",
    "warm": "def prepare(state):\n"
    "    if MEMBER == 4:\n"
    "        from hvdlite.job import membership\n"
    "        write = membership.Membership._write\n"
    "        membership.Membership._write = lambda *a: (write(*a), die())\n"
    "def happens(step):\n"
    "    if (MEMBER, step) == (2, 5): die()\n",
}


@pytest.mark.parametrize("end", tier.one_of(["step", "commit"], "deaths end"))
@pytest.mark.parametrize("where", tier.one_of(list(DEATHS), "deaths"))
def test_survivors_go_on_wherever_a_rank_dies(job: Job, where: str, end: str) -> None:  # 3
    script = program(
        job, "def prepare(state): pass\n" + DEATHS[where], "prepare(state)", AGAIN_THREE, end
    )
    done = job.end_well("-np", "3", "--min-np", "1", *QUICKLY, PYTHON, script)
    trained = re.findall(rb"member (\d+) is rank (\d) of 3", done.stdout)
    assert len(trained) == 3 and {b"1", b"3"} < {member for member, _ in trained}
    assert b"2" not in {member for member, _ in trained}
    assert job.pids() == []


STORMS = tier.by_tier(range(1), range(3), range(200))


@pytest.mark.costly
@pytest.mark.parametrize("number", STORMS)
def test_a_job_of_which_one_rank_lives_goes_on_whoever_is_killed_at_once(
    job: Job, number: int
) -> None:
    goes_by(storm(tier.draw("elastic storms", 1 << 20) + number), job)


KILLS_THREE = """
def happens(step):
    if (MEMBER, step) == (1, 5):
        pids = [pid_of(f"trains.1.4.{m}") for m in (2, 3)]
        for each in [*pids, os.getpid()]: os.kill(each, signal.SIGKILL)
"""


@pytest.mark.parametrize("least", tier.one_of([1, 3], "deaths of three"))
def test_one_of_four_goes_on_or_waits_for_others(job: Job, least: int) -> None:  # 4
    """Race 4: the three die within a millisecond."""
    done_when = "hvd.size() == 4 and hvd.elastic.generation() > 1"
    script = program(job, KILLS_THREE, done=done_when)
    job.end_well("-np", "4", "--min-np", str(least), *QUICKLY, PYTHON, script)
    sizes = [size for _, size in generations(job, 4)]
    assert sizes[0] == sizes[-1] == 4 and all(size >= least for size in sizes)
    assert job.pids() == []


def test_a_frozen_rank_is_killed_and_the_others_go_on(job: Job) -> None:  # 9
    freezes = (
        "def happens(step):\n"
        "    if (MEMBER, step) == (2, 5): os.kill(os.getpid(), signal.SIGSTOP)\n"
    )
    script = program(job, freezes, done=AGAIN_THREE)
    job.end_well(
        "-np", "3", "--min-np", "1", *QUICKLY, PYTHON, script, HVDLITE_HEARTBEAT_SECONDS="1"
    )
    assert [size for _, size in generations(job, 1)][-1] == 3
    assert generations(job, 2) == [(1, 3)]
    assert job.pids() == []


def _state(process: int) -> str:
    return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]


@pytest.mark.costly
def test_a_rank_that_is_frozen_for_a_moment_changes_nothing(job: Job) -> None:  # 10
    freezes = (
        "def happens(step):\n"
        "    if (MEMBER, step) == (2, 5): os.kill(os.getpid(), signal.SIGSTOP)\n"
    )
    warns = ("--stall-check-warning-time-seconds", "3")
    process = job.start("-np", "3", "--min-np", "1", *warns, PYTHON, program(job, freezes))
    job.wait_for_files(["trains.1.3.2"])
    frozen = pid(job, "trains.1.3.2")
    wait_until(lambda: _state(frozen) == "T")
    assert process.stderr is not None
    lines = iter(process.stderr.readline, b"")
    assert any(b"Operations have waited for more than 3 s" in line for line in lines)
    os.kill(frozen, signal.SIGCONT)
    out, _ = ended(process)
    assert out.count(b"of 3, step 12") == 3
    assert [generations(job, member) for member in (1, 2, 3)] == [[(1, 3)]] * 3


# The time that is counted begins when the survivor has reported.
SHORT = """
import dataclasses
due = state_machine.StateMachine.due
def is_due(self):
    if self.generation and self._short_since is not None:
        self.policy = dataclasses.replace(self.policy, elastic_timeout=0.5)
    return due(self)
state_machine.StateMachine.due = is_due
"""


def test_a_job_that_stays_below_its_minimum_ends(job: Job) -> None:  # 27
    dies = "def happens(step):\n    if (MEMBER, step) == (2, 5): die()\n"
    script = program(job, dies, done="False", launcher=SHORT)
    cooldown = ("--blacklist-cooldown-range", "100", "100")
    done = job.run("-np", "2", "--min-np", "2", *cooldown, PYTHON, script)
    assert done.returncode == 1, done.stderr.decode()
    assert last_line(done.stderr).startswith(
        "hvdliterun: for 0.5 s there were only 1 of the 2 processes that the job needs; its hosts "
        "have 2 slots."
    )
    assert generations(job, 1) == generations(job, 2) == [(1, 2)]
    assert job.pids() == []


CRASHES = """
if 4 <= MEMBER <= 8:
    open(f"crash.{MEMBER}", "w").write(str(time.monotonic()))
    raise ImportError("this newcomer has no library")
def happens(step):
    if (MEMBER, step) == (2, 5):
        open("crash.2", "w").write(str(time.monotonic()))
        die()
"""


@pytest.mark.costly
def test_newcomers_that_crash_do_not_stop_the_others(job: Job) -> None:  # 20
    script = program(job, CRASHES, done=AGAIN_THREE)
    cooldown = ("--blacklist-cooldown-range", "0.02", "100")
    job.end_well("-np", "3", "--min-np", "1", *cooldown, PYTHON, script)
    for member in (1, 3):
        assert generations(job, member) == [(1, 3), (2, 2), (3, 3)]
    times = [float((job.directory / f"crash.{m}").read_text()) for m in (2, 4, 5, 6, 7, 8)]
    for number, (one, next_one) in enumerate(zip(times, times[1:], strict=False)):
        assert next_one - one >= 0.02 * 2**number, times
    assert job.pids() == []


ASKS_TOO_EARLY = """
def happens(step):
    if (MEMBER, step) == (2, 5): die()
if MEMBER == 4:
    hvd.init()
    hvd.allreduce(np.ones(3))
"""


@pytest.mark.costly
def test_a_newcomer_that_reduces_before_run_has_an_error_of_its_own(job: Job) -> None:  # 21
    script = program(job, ASKS_TOO_EARLY, done=AGAIN_THREE)
    done = job.end_well("-np", "3", "--min-np", "1", *QUICKLY, PYTHON, script)
    assert "hvd.elastic.run" in done.stderr.decode()
    for member in (1, 3):
        assert generations(job, member) == [(1, 3), (2, 2), (3, 3)]


TORCH = """
import os, signal
import torch
import hvdlite.torch as hvd
MEMBER = int(os.environ["HVDLITE_MEMBER"])
hvd.init()
torch.manual_seed(MEMBER)
def made():
    model = torch.nn.Linear(4, 2)
    names = model.named_parameters()
    return model, hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), names)
model, optimizer = made()
hvd.broadcast_parameters(model.state_dict(), root_rank=0)
hvd.broadcast_optimizer_state(optimizer, root_rank=0)
assert hvd.broadcast_object(7, root_rank=0) == 7
state = hvd.elastic.TorchState(model, optimizer, step=0)

@hvd.elastic.run
def train(state):
    other, second = made()
    while state.step < 12 or hvd.size() < 3 or hvd.elastic.generation() < 2:
        for each, its in ((model, optimizer), (other, second)):
            its.zero_grad()
            each(torch.ones(3, 4)).sum().backward()
            if (MEMBER, state.step) == (2, 5): os.kill(os.getpid(), signal.SIGKILL)
            its.step()
        state.step += 1
        state.step_is_whole()

hvd.elastic.TorchState.step_is_whole = hvd.elastic.TorchState.commit
train(state)
weights = hvd.allgather(model.weight.detach().reshape(1, -1))
assert (weights == weights[0]).all()
print("equal on", len(weights))
"""


@pytest.mark.costly
def test_a_newcomer_may_broadcast_before_run_and_make_optimizers_inside(job: Job) -> None:  # 22
    done = job.end_well("-np", "3", "--min-np", "1", *QUICKLY, PYTHON, job.script(TORCH))
    assert done.stdout.count(b"equal on 3") == 3


EVALUATES = """
def happens(step):
    if (MEMBER, step) == (1, 5):
        flag("evaluates")
        wait_for("evaluated")
    if (MEMBER, step) == (2, 5):
        wait_for("evaluates.1")
        die()
"""


@pytest.mark.costly
def test_a_rank_in_a_long_evaluation_is_waited_for_and_named(job: Job) -> None:  # 31
    script = program(
        job, EVALUATES, done=AGAIN_THREE, launcher="state_machine.TELL_OF_WAITING_SECONDS = 0.1"
    )
    process = job.start("-np", "3", "--min-np", "1", *QUICKLY, PYTHON, script)
    assert process.stderr is not None
    lines = iter(process.stderr.readline, b"")
    # Member 0 may be late, too.
    told = re.compile(rb"the next generation waits for members? (0-)?1\b")
    assert any(told.search(line) for line in lines)
    (job.directory / "evaluated").touch()
    ended(process)
    assert [size for _, size in generations(job, 1)][0] == 3


NEVER_COMES = """
def happens(step):
    if (MEMBER, step) == (2, 5): wait_to_be_killed("hangs")
"""


@pytest.mark.full
def test_a_rank_that_never_comes_is_killed_and_replaced(job: Job) -> None:  # 31
    script = program(job, NEVER_COMES, done=AGAIN_THREE)
    stall = ("--stall-check-warning-time-seconds", "0.2")
    stall += ("--stall-check-shutdown-time-seconds", "0.5")
    job.end_well(
        "-np", "3", "--min-np", "1", "--elastic-timeout", "20", *stall, *QUICKLY, PYTHON, script
    )
    assert generations(job, 2) == [(1, 3)]
    assert job.pids() == []
