"""Elastic jobs under hvdliterun: ranks die, come and leave while the others go on.

The numbers are the rows of the design's table of faults. The program adds 1 to its weights in each
step, as the average of all ranks, so that weights and steps agree whatever has happened. It ends
when it has made its steps and the job has the size that the test waits for.
"""

from __future__ import annotations

import re
import signal
import sys
from pathlib import Path

import pytest
from launched import PATIENT, WAIT_FOR, Job, ended, last_line
from waiting import wait_until

PYTHON = sys.executable
STEPS = 12

PROGRAM = """
import os, signal, sys
import numpy as np
import hvdlite as hvd

MEMBER = int(os.environ["HVDLITE_MEMBER"])
def happens(step): pass
{happens}
hvd.init()
state = hvd.elastic.ObjectState(hvd.broadcast_object, hvd.rank, step=0, weights=np.zeros(3))

@hvd.elastic.run
def train(state):
    open(f"trains.{{MEMBER}}.{{hvd.size()}}", "w").close()
    core = hvd._core
    assert (core.local_rank(), core.local_size(), core.cross_rank(), core.cross_size()) == (
        hvd.local_rank(), hvd.local_size(), hvd.cross_rank(), hvd.cross_size())
    while state.step < {steps} or not {done}:
        happens(state.step)
        state.weights = state.weights + hvd.allreduce(np.ones(3), name="gradient")
        state.step += 1
        state.commit()
    assert (state.weights == state.step).all(), (state.weights, state.step)
    return f"member {{MEMBER}} is rank {{hvd.rank()}} of {{hvd.size()}}, process {{os.getpid()}}"

print("before", os.getpid(), flush=True)
print("trained:", train(state), flush=True)
"""


def _program(job: Job, happens: str = "", done: str = "True", steps: int = STEPS) -> str:
    return job.script(PROGRAM.format(happens=happens, done=done, steps=steps))


def _dies(members: str, how: str) -> str:
    return f"def happens(step):\n    if step == 5 and MEMBER in {members}: {how}\n"


def _trained(out: str) -> dict[int, int]:
    """The members whose function has returned, and their ranks."""
    return {
        int(member): int(rank) for member, rank in re.findall(r"member (\d+) is rank (\d+)", out)
    }


KILL = "os.kill(os.getpid(), signal.SIGKILL)"


@pytest.mark.parametrize(
    ("members", "how"),
    [
        ("(3,)", KILL),  # 1: the last rank
        ("(1,)", KILL),  # 2: rank 0
        ("(2,)", KILL),  # 3
        ("(1, 2)", KILL),  # 4
        ("(2,)", "raise ValueError('bad sample')"),  # 6
        ("(2,)", "os._exit(0)"),  # 8
    ],
    ids=["last", "first", "middle", "two", "exception", "exit-0"],
)
def test_survivors_go_on_in_their_processes_and_slots_are_filled_again(
    job: Job, members: str, how: str
) -> None:
    program = _program(job, _dies(members, how), done="hvd.size() == 3")
    done = job.end_well("-np", "3", "--min-np", "1", PYTHON, program)
    lost = set(eval(members))
    trained = _trained(done.stdout.decode())
    survivors = {1, 2, 3} - lost
    assert survivors < set(trained) and len(trained) == 3 and not lost & set(trained)
    assert trained[min(survivors)] == 0, "rank 0 is a survivor"
    before = {
        line.rsplit(" ", 1)[1] for line in done.stdout.decode().splitlines() if "before" in line
    }
    assert len(before) == 3 + len(lost), "a survivor has started anew"
    assert "ValueError" not in how or "ValueError: bad sample" in done.stderr.decode()
    ended_how = {KILL: "was killed by SIGKILL"}.get(how, "ended with status")
    said = done.stderr.decode()
    assert all(f"member {each} on localhost {ended_how}" in said for each in lost), said
    assert job.pids() == []


def test_a_job_whose_ranks_all_die_at_once_ends(job: Job) -> None:  # 5
    done = job.run("-np", "2", "--min-np", "1", PYTHON, _program(job, _dies("(1, 2)", KILL)))
    assert done.returncode == 137
    said = last_line(done.stderr)
    assert "was killed by SIGKILL" in said and ".." not in said
    assert "No member is left that has the state of the training" in said
    assert done.stderr.decode().count(said.partition(" No member")[0]) <= 2
    assert job.pids() == []


def test_three_ranks_that_are_killed_at_once_are_no_fault_of_the_program(job: Job) -> None:
    """All ranks have printed one line, such as a library's warning: it says nothing of deaths."""
    happens = 'print("common words", file=sys.stderr, flush=True)\n' + _dies("(1, 2, 3)", KILL)
    program = _program(job, happens, done="hvd.elastic.generation() > 1")
    done = job.end_well("-np", "5", "--min-np", "1", PYTHON, program)
    assert {4, 5} <= set(_trained(done.stdout.decode()))
    said = done.stderr.decode()
    for member in (1, 2, 3):
        killed = f"member {member} on localhost was killed by SIGKILL (sent by a user or a program"
        assert said.count(killed) == 1, said
    assert "common words." not in said and "program's fault" not in said
    assert job.pids() == []


COPIES = """
import numpy as np
import hvdlite as hvd
from hvdlite.elastic import state
hvd.init()
state._SHARE = (1.0, 0.1, 0.02)[hvd.rank()]  # of the time, for copies: as if they took longer there
state = hvd.elastic.ObjectState(steps=0, weights=np.zeros(100_000))

@hvd.elastic.run
def train(state):
    found = set()
    while state.steps < 2000 and len(found) < 5:
        state.steps += 1
        state.step()
        mine = np.array([state._marks.copy])
        of_all = hvd.allgather(mine, name="copies").tolist()
        assert len(set(of_all)) == 1, f"step {state.steps}: copies of {of_all}"
        found.add(of_all[0])
    return sorted(found)

found = train(state)
assert len(found) == 5 and found[0] >= 0, found
print("copied", flush=True)
"""


def test_copies_that_step_makes_are_of_one_position_on_all_ranks(job: Job) -> None:
    done = job.end_well("-np", "3", "--min-np", "1", PYTHON, job.script(COPIES))
    assert done.stdout.count(b"copied") == 3


@pytest.mark.parametrize("when", ["before the other one is there", "while the other one waits"])
def test_a_rank_that_ends_with_0_before_init_is_replaced(job: Job, when: str) -> None:
    order = "wait_for('waits')" if "while" in when else "pass"
    ends = (
        WAIT_FOR
        + f"if MEMBER == 1:\n    {order}\n    open('ended', 'w').close()\n    os._exit(0)\n"
        "from hvdlite.job import membership\n"
        "report = membership.Membership._write\n"
        "def written(*arguments):\n"
        "    report(*arguments)\n"
        "    open('waits', 'w').close()\n"
        "membership.Membership._write = written\n"
        + ("" if "while" in when else "wait_for('ended')\n")
    )
    program = _program(job, ends, done="hvd.size() == 2")
    done = job.end_well("-np", "2", "--min-np", "1", PYTHON, program)
    said = done.stderr.decode()
    assert "member 1 on localhost ended with status 0 before hvd.init()." in said, said
    assert sorted(_trained(done.stdout.decode())) == [2, 3]
    assert job.pids() == []


def test_an_error_that_each_member_of_a_slot_meets_ends_the_job(job: Job) -> None:  # 7
    happens = (
        "def happens(step):\n    if step == 5 and hvd.rank() == 1: raise ValueError('bad "
        "sample 77')\n"
    )
    program = _program(job, happens)
    cooldown = ("--blacklist-cooldown-range", "0.01", "0.02")
    done = job.run("-np", "2", "--min-np", "2", *cooldown, PYTHON, program)
    assert done.returncode == 1
    assert "bad sample 77" in last_line(done.stderr) and "That is the program's fault" in last_line(
        done.stderr
    )
    assert job.pids() == []


def test_a_rank_whose_guardian_is_killed_is_lost_and_the_others_go_on(job: Job) -> None:  # 11
    happens = (
        "def happens(step):\n"
        "    if step == 5 and MEMBER == 2:\n"
        "        os.kill(os.getppid(), signal.SIGKILL)\n"
        "        signal.pause()\n"
    )
    done = job.end_well(
        "-np", "3", "--min-np", "1", PYTHON, _program(job, happens, done="hvd.size() == 3")
    )
    assert {1, 3} < set(_trained(done.stdout.decode()))
    assert job.pids() == []


def test_nothing_is_left_when_the_launcher_is_killed(job: Job) -> None:  # 12
    process = job.start("-np", "2", "--min-np", "1", PYTHON, _program(job, done="False"))
    job.wait_for_files(["trains.1.2", "trains.2.2"])
    process.kill()
    assert job.wait_until_gone(10.0) == []


def test_a_script_makes_the_job_grow_and_shrink(job: Job) -> None:  # 15, 16, 18
    hosts = job.name_hosts("localhost:2")
    program = _program(job, done="os.path.exists('enough')")
    process = job.start(
        "-np", "2", "--min-np", "1", "--host-discovery-script", f"cat {hosts}", PYTHON, program
    )
    job.wait_for_files(["trains.1.2", "trains.2.2"])

    job.name_hosts("localhost:3")
    job.wait_for_files(["trains.1.3", "trains.2.3", "trains.3.3"])
    job.name_hosts("localhost:1")
    job.wait_for_files(["trains.1.1"])
    (job.directory / "enough").touch()
    out, _ = ended(process)
    assert _trained(out.decode()) == {1: 0}
    assert job.pids() == []


@pytest.mark.parametrize("limit", [1, 2])
# 26
def test_changes_beyond_the_limit_end_the_job_with_horovods_sentence(job: Job, limit: int) -> None:
    program = _program(job, _dies("(3,)", KILL), done="hvd.size() == 3 and MEMBER != 3")
    done = job.run("-np", "3", "--min-np", "1", "--reset-limit", str(limit), PYTHON, program)
    said = "number of resets during elastic job exceeded limit: 1" in last_line(done.stderr)
    assert (done.returncode, said) == ((1, True) if limit == 1 else (0, False)), (
        done.stderr.decode()
    )
    assert job.pids() == []


def test_ranks_that_ask_for_different_things_are_not_tried_again(job: Job) -> None:  # 30
    happens = (
        "def happens(step):\n    if step == 5: hvd.allreduce(np.ones(3 + hvd.rank()), "
        "name='gradient')\n"
    )
    done = job.run("-np", "2", "--min-np", "1", PYTHON, _program(job, happens))
    assert done.returncode == 1, done.stderr.decode()
    assert "MismatchError" in last_line(done.stderr), done.stderr.decode()
    assert job.pids() == []


def test_sigterm_ends_the_job_at_a_boundary(job: Job) -> None:  # 24
    process = job.start(
        "-np", "2", "--min-np", "1", "--leave-seconds", PATIENT, PYTHON, _program(job, done="False")
    )
    job.wait_for_files(["trains.1.2", "trains.2.2"])
    process.send_signal(signal.SIGTERM)
    _, err = ended(process, 143)
    assert "was asked to end" in last_line(err)
    assert job.pids() == []


def test_ctrl_c_ends_the_job(job: Job) -> None:
    process = job.start("-np", "2", "--min-np", "1", PYTHON, _program(job, done="False"))
    job.wait_for_files(["trains.1.2", "trains.2.2"])
    process.send_signal(signal.SIGINT)
    _, err = process.communicate()
    assert (process.returncode, last_line(err)) == (
        130,
        "hvdliterun: ended by SIGINT; all ranks were ended.",
    )
    assert job.pids() == []


def test_copies_of_the_output_are_by_member(job: Job) -> None:
    program = _program(job, _dies("(2,)", KILL), done="hvd.size() == 2")
    job.end_well("-np", "2", "--min-np", "1", "--output-filename", "logs", PYTHON, program)
    logs = job.directory / "logs"
    wait_until(lambda: len(list(logs.iterdir())) == 3)
    assert "trained: member 1" in (logs / "rank.1" / "stdout").read_text()
    assert (logs / "rank.2" / "stdout").read_text().startswith("before")
    assert "trained: member 3" in Path(logs / "rank.3" / "stdout").read_text()


def test_a_script_that_fails_at_once_ends_the_job(job: Job) -> None:  # 19
    done = job.run("-np", "2", "--host-discovery-script", "echo nothing of use; exit 3", "true")
    assert done.returncode == 1
    assert "the host discovery script" in last_line(done.stderr)
