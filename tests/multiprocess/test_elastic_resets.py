"""What happens while an elastic job goes from one generation to the next: the design's races."""

from __future__ import annotations

import json
import os
import re
import signal

import pytest
import tier
from elastic_faults import PYTHON, QUICKLY, generations, pid, program
from launched import MARK, PATIENT, Job, ended, last_line
from waiting import wait_until

AGAIN_THREE = "hvd.size() == 3 and hvd.elastic.generation() > 1"
# Member 1 hears of the death in generation 1 from its engine, and of the news when generation 2
# is up.
HEARS_LATE = """
from hvdlite.elastic import driver_notices
hear = driver_notices.Reader._hear
def hears(self, heard):
    late = MEMBER == 1 and heard.broken and heard.generation == 1
    if late: wait_for("trains.2.2.1", "trains.2.2.3")
    hear(self, heard)
    if late: flag("hears")
driver_notices.Reader._hear = hears
def happens(step):
    if (MEMBER, step) == (2, 5): die()
"""


def test_news_of_a_generation_that_is_over_end_no_other_one(job: Job) -> None:  # race 1
    script = program(job, HEARS_LATE, done=f"{AGAIN_THREE} and os.path.exists('hears.1')")
    done = job.end_well("-np", "3", "--min-np", "1", *QUICKLY, PYTHON, script)
    assert done.stdout.count(b" of 3, step ") == 3
    assert generations(job, 1) == generations(job, 3) == [(1, 3), (2, 2), (3, 3)]
    assert job.pids() == []


# Member 2 dies, and then member 3: where in generation 2.
SECOND_DEATHS = {
    "forming": "from hvdlite.job import membership\n"
    "arrive = membership.Membership.arrive\n"
    "def arrives(self):\n"
    "    found = arrive(self)\n"
    "    return die() if MEMBER == 3 and self.generation == 2 else found\n"
    "membership.Membership.arrive = arrives\n",
    "up": "from hvdlite.job import membership\n"
    "entered = membership.Membership.entered\n"
    "def enters(self, *rest):\n"
    "    return die() if MEMBER == 3 and self.generation == 2 else entered(self, *rest)\n"
    "membership.Membership.entered = enters\n",
    "taking its role": "def prepare(state):\n"
    "    take_role = state._take_role\n"
    "    def takes_role(*what):\n"
    "        return die() if MEMBER == 3 and hvd.elastic.generation() == 2 else take_role(*what)\n"
    "    state._take_role = takes_role\n",
    "training": "",
}


@pytest.mark.parametrize("phase", tier.one_of(list(SECOND_DEATHS), "a second death"))
def test_a_second_death_in_the_next_generation_leads_to_one_more(job: Job, phase: str) -> None:
    """Race 2, in "forming": no member waits for the start timeout."""
    happens = (
        "def prepare(state): pass\n"
        "def happens(step):\n"
        "    generation = hvd.elastic.generation()\n"
        "    if (MEMBER, step) == (2, 5) or (MEMBER, generation) == (3, 2): die()\n"
    )
    done_when = "hvd.size() == 3 and hvd.elastic.generation() > 2"
    script = program(job, happens + SECOND_DEATHS[phase], "prepare(state)", done_when)
    flags = ("-np", "3", "--min-np", "1", "--start-timeout", "600", *QUICKLY)
    done = job.end_well(*flags, PYTHON, script)
    trained = set(re.findall(r"member (\d+) is rank \d of 3", done.stdout.decode()))
    assert len(trained) == 3 and "1" in trained and not {"2", "3"} & trained
    assert generations(job, 3) == [(1, 3)] + [(2, 2)] * (phase == "training")
    assert job.pids() == []


# Each report leaves a file; member 1 is in code of its own while the others report.
GATHERS = """
from hvdlite.job import membership
write = membership.Membership._write
def writes(self, report):
    write(self, report)
    flag(f"reported.{report.generation}")
membership.Membership._write = writes
def happens(step):
    if step == 5 and hvd.elastic.generation() == 1:
        if MEMBER == 1:
            flag("evaluates")
            wait_for("evaluated")
        if MEMBER == 4:
            wait_for("evaluates.1")
            die()
"""


@pytest.mark.costly
def test_a_survivor_that_dies_behind_its_report_is_not_waited_for(job: Job) -> None:  # race 5
    script = program(job, GATHERS, done="hvd.size() == 4 and hvd.elastic.generation() > 1")
    process = job.start("-np", "4", "--min-np", "1", *QUICKLY, PYTHON, script)
    job.wait_for_files(["reported.2.2", "reported.2.3"])
    os.kill(pid(job, "reported.2.2"), signal.SIGKILL)
    (job.directory / "evaluated").touch()
    ended(process)
    assert generations(job, 2) == [(1, 4)]
    assert [size for _, size in generations(job, 1)][-1] == 4
    assert job.pids() == []


# Member 1, the source, dies while the newcomer receives: before the first byte, between the
# attributes and what has a state_dict(), and behind the last byte.
HANDS_OVER = """
def happens(step):
    if (MEMBER, step) == (3, 5): die()
class Part:
    def __init__(self): self.number = 0
    def state_dict(self): return {"number": self.number}
    def load_state_dict(self, state): self.number = state["number"]
def prepare(state):
    state.part = Part()
    receive = state._receive
    def at(moment):
        if MEMBER == 1 and hvd.size() == 3 and hvd.elastic.generation() > 1 and moment == MOMENT:
            die()
    def receives(root):
        at("before")
        receive(root)
        at("behind")
    state._receive = receives
    handler = state._handler_of(state.part)
    state._handlers["part"] = handler
    sync = handler.sync
    def syncs(root_rank=0):
        at("between")
        sync(root_rank)
    handler.sync = syncs
"""


@pytest.mark.parametrize("end", tier.one_of(["step", "commit"], "hand-over's end"))
@pytest.mark.parametrize("moment", tier.one_of(["before", "between", "behind"], "hand-over"))
def test_a_source_may_die_while_it_hands_over(job: Job, moment: str, end: str) -> None:  # race 6
    before = f"MOMENT = {moment!r}\n{HANDS_OVER}"
    done_when = "hvd.size() == 3 and hvd.elastic.generation() > 3"
    script = program(job, before, "prepare(state)", done_when, end)
    done = job.end_well("-np", "3", "--min-np", "1", *QUICKLY, PYTHON, script)
    assert generations(job, 1)[:2] == [(1, 3), (2, 2)]
    assert done.stdout.count(b" of 3, step ") == 3 and b"member 1 is" not in done.stdout
    assert job.pids() == []


# All submit the gradient of step 5. Member 1 completes the step. Member 2 has not taken the
# gradient, and waits for an operation of its own, when member 3 dies.
APART = """
from hvdlite.job import membership
write = membership.Membership._write
def writes(self, report):
    flag(f"reports.{report.generation}.{report.position}")
    write(self, report)
membership.Membership._write = writes
def happens(step):
    if hvd.elastic.generation() == 2: flag(f"makes.{step}")
    if step != 5 or hvd.elastic.generation() > 1: return
    handle = hvd.allreduce_async(np.ones(3), name="gradient")
    if MEMBER == 2:
        wait_for("ends.1")
        flag("waits")
        hvd.allreduce(np.ones(3), name="alone")
    found = hvd.synchronize(handle)
    if MEMBER == 3:
        wait_for("waits.2")
        die()
    state.weights = state.weights + found
    state.steps += 1
    flag("ends")
    state.END()
"""


@pytest.mark.parametrize("end", tier.one_of(["step", "commit"], "apart"))
def test_survivors_that_are_a_step_apart_agree(job: Job, end: str) -> None:  # race 12
    script = program(job, APART.replace("END", end), done=AGAIN_THREE, end=end)
    done = job.end_well("-np", "3", "--min-np", "1", *QUICKLY, PYTHON, script)
    assert done.stdout.count(b" of 3, step ") == 3
    reports = sorted(path.name for path in job.directory.glob("reports.2.*"))
    assert reports == ["reports.2.5.2", "reports.2.6.1"], "they were one step apart"
    for member in (1, 2):
        assert (job.directory / f"makes.6.{member}").exists()
        assert not (job.directory / f"makes.5.{member}").exists(), "a whole step was done again"
    assert job.pids() == []


# Each process holds a name that one process at a time can have, as it would hold ports and a GPU.
# Member 2 is killed, as it does not leave in time, and takes long to die.
HOLDS = """
import socket
held = socket.socket(socket.AF_UNIX)
held.bind("\\0" + os.environ[MARK] + os.environ["HVDLITE_SLOT"])
def dies_slowly(*_):
    wait_for("cooled")
    os._exit(1)
if MEMBER == 2: signal.signal(signal.SIGTERM, dies_slowly)
def happens(step):
    if (MEMBER, step) == (2, 5):
        hvd.elastic.leave()
        while True: signal.pause()
"""
# `cooled` is there as soon as the slot could be filled again but for its old process.
WATCHES = """
import os
from hvdlite.launch.elastic import driver
from hvdlite.launch.elastic.members import Stage
handle, start = driver.Driver._handle, driver.Driver._start
def handles(self, batch):
    handle(self, batch)
    members, now = self._machine.members, self._machine._now
    second = members.by_number.get(2)
    if second is not None and second.stage is Stage.LOST and not members.cooling(now):
        open("cooled", "w").close()
def starts(self, action):
    if action.member > 3:
        old = open("starts.2").read()
        open("early" if os.path.exists(f"/proc/{old}") else "in.time", "w").close()
    start(self, action)
driver.Driver._handle, driver.Driver._start = handles, starts
"""


def test_a_slot_is_filled_when_its_old_process_is_gone(job: Job) -> None:  # race 14
    script = program(job, f"MARK = {MARK!r}\n{HOLDS}", done=AGAIN_THREE, launcher=WATCHES)
    limits = ("--leave-seconds", "0.1", "--grace-seconds", PATIENT)
    done = job.end_well("-np", "3", "--min-np", "1", *QUICKLY, *limits, PYTHON, script)
    assert (job.directory / "in.time").exists() and not (job.directory / "early").exists()
    assert done.stdout.count(b" of 3, step ") == 3 and b"member 4 is" in done.stdout
    assert b"already in use" not in done.stderr, done.stderr.decode()
    assert generations(job, 1) == [(1, 3), (2, 2), (3, 3)]
    assert job.pids() == []


LOADER = """
import json, os, signal, sys
import torch
import hvdlite.torch as hvd
MEMBER = int(os.environ["HVDLITE_MEMBER"])
LENGTH = 240
class Samples(torch.utils.data.Dataset):
    def __len__(self): return LENGTH
    def __getitem__(self, index): return index
def starts(number):
    open(f"worker.{MEMBER}.{os.getpid()}", "w").close()
hvd.init()
torch.set_num_threads(1)
model = torch.nn.Linear(1, 1)
optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=1e-3),
                                     named_parameters=model.named_parameters())
cursor = hvd.elastic.Cursor(LENGTH, batch_size=4, tail="carry")
loader = torch.utils.data.DataLoader(
    Samples(), batch_sampler=cursor.batches(), num_workers=4, prefetch_factor=8,
    persistent_workers=True, worker_init_fn=starts)
state = hvd.elastic.TorchState(model, optimizer, cursor=cursor, steps=0,
                               counts=torch.zeros(LENGTH, dtype=torch.int64))

@hvd.elastic.run
def train(state):
    while hvd.elastic.generation() < 3 or hvd.size() < 3 or cursor.epoch < 4:
        for indices in cursor.track(loader):
            if (MEMBER, state.steps) == (2, 7): os.kill(os.getpid(), signal.SIGKILL)
            mine = torch.zeros(LENGTH, dtype=torch.int64)
            mine[indices] += 1
            optimizer.zero_grad()
            model(torch.ones(1, 1)).sum().backward()
            counts = hvd.allreduce(mine, op=hvd.Sum, name="counts")
            optimizer.step()
            state.counts = state.counts + counts
            state.steps += 1
            state.step()

train(state)
print(json.dumps([cursor.epoch, cursor.sample, state.counts.tolist()]))
"""


@pytest.mark.costly
def test_loaders_with_workers_deal_each_sample_once(job: Job) -> None:  # 34, race 13
    process = job.start("-np", "3", "--min-np", "1", *QUICKLY, PYTHON, job.script(LOADER))
    wait_until(lambda: len(list(job.directory.glob("worker.2.*"))) >= 4, 60)
    out, _ = ended(process)
    said = [json.loads(line.partition(":")[2]) for line in out.decode().splitlines()]
    epoch, sample, counts = said[0]
    assert said == [said[0]] * 3
    assert sorted(counts) == [epoch] * (240 - sample) + [epoch + 1] * sample
    workers = [int(path.name.split(".")[2]) for path in job.directory.glob("worker.2.*")]
    assert workers and not any(os.path.exists(f"/proc/{worker}") for worker in workers)
    assert job.pids() == []


# A thread of every member forks as data loaders do, and rank 1 dies in each full generation.
FORKS = """
def forks():
    while True:
        child = os.fork()
        if not child:
            os._exit(0)
        os.waitpid(child, 0)
threading.Thread(target=forks, daemon=True).start()
def happens(step):
    generation = hvd.elastic.generation()
    if hvd.size() == 3 and hvd.rank() == 1 and generation < MOST:
        if os.path.exists(f"trains.{generation}.3.{members(0)}"): die()
def members(rank):
    from hvdlite.job import membership
    return membership.member().assignment.member_numbers()[rank]
"""


@pytest.mark.costly
@pytest.mark.parametrize("most", [6, pytest.param(50, marks=pytest.mark.full)])
@pytest.mark.watchdog(180)
def test_forks_through_resets_do_no_harm(job: Job, most: int) -> None:  # race 17
    done_when = f"hvd.size() == 3 and hvd.elastic.generation() >= {most}"
    script = program(job, f"MOST = {most}\n{FORKS}", done=done_when)
    done = job.end_well("-np", "3", "--min-np", "1", *QUICKLY, PYTHON, script)
    assert done.stdout.count(b" of 3, step ") == 3
    assert job.pids() == []


# Member 2 dies, and member 1 stays in the phase.
PHASES = {
    "gathering": "def happens(step):\n"
    "    if step == 5 and MEMBER == 1: wait_to_be_killed('stays')\n"
    "    if step == 5 and MEMBER == 2: die()\n",
    "forming": "from hvdlite.job import membership\n"
    "arrive = membership.Membership.arrive\n"
    "def arrives(self):\n"
    "    found = arrive(self)\n"
    "    return wait_to_be_killed('stays') if MEMBER == 1 and self.generation == 2 else found\n"
    "membership.Membership.arrive = arrives\n"
    "def happens(step):\n"
    "    if step == 5 and MEMBER == 2: die()\n",
    "receiving": "def happens(step):\n"
    "    if step == 5 and MEMBER == 2: die()\n"
    "def prepare(state):\n"
    "    if MEMBER == 4: state._receive = lambda *_: wait_to_be_killed('stays')\n",
    "warming": "if MEMBER == 4: wait_to_be_killed('stays')\n"
    "def happens(step):\n"
    "    if step == 5 and MEMBER == 2: die()\n",
}


@pytest.mark.parametrize("phase", tier.one_of(list(PHASES), "ctrl-c"))
def test_ctrl_c_in_a_reset_ends_the_job(job: Job, phase: str) -> None:  # race 18
    before = "def prepare(state): pass\n" + PHASES[phase]
    script = program(job, before, "prepare(state)", done="False")
    process = job.start("-np", "3", "--min-np", "1", *QUICKLY, PYTHON, script)
    wait_until(lambda: list(job.directory.glob("stays.[14]")))
    process.send_signal(signal.SIGINT)
    _, err = ended(process, 130)
    assert last_line(err) == "hvdliterun: ended by SIGINT; all ranks were ended."
    assert job.pids() == []


# By up to a year, forwards and backwards, in the launcher and in the ranks.
JUMPS = """
import random, time
real = time.time
time.time = lambda: real() + random.uniform(-3e7, 3e7)
"""
DIES = """
def happens(step):
    if (MEMBER, step) == (2, 5): die()
"""


@pytest.mark.costly
def test_wall_clocks_decide_nothing(job: Job) -> None:  # race 19
    script = program(job, JUMPS + DIES, done=AGAIN_THREE, launcher=JUMPS)
    job.end_well("-np", "3", "--min-np", "1", *QUICKLY, PYTHON, script)
    for member in (1, 3):
        assert [size for _, size in generations(job, member)] == [3, 2, 3]
    assert job.pids() == []


@pytest.mark.costly
def test_a_death_and_a_newcomer_at_one_boundary(job: Job) -> None:  # race 9
    """Member 2 dies when the ranks have heard of a newcomer, before they agree on it."""
    hears = (
        "from hvdlite.elastic import driver_notices\n"
        "def happens(step):\n"
        "    latest = driver_notices.latest()\n"
        "    if MEMBER == 2 and latest is not None and latest.ready: die()\n"
    )
    hosts = job.name_hosts("localhost:3")
    script = program(job, hears, done="hvd.size() == 4")
    process = job.start(
        "-np", "3", "--min-np", "1", *QUICKLY, "--host-discovery-script", f"cat {hosts}", PYTHON,
        script,
    )  # fmt: skip
    job.wait_for_files(["trains.1.3.1"])
    job.name_hosts("localhost:4")
    ended(process)
    assert generations(job, 1)[-1][1] == 4
    assert job.pids() == []
