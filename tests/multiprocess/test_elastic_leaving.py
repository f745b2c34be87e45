"""Announced ends of ranks under hvdliterun: no step is done twice, and the leavers end well.

The numbers are the rows of the design's table of faults. Each rank writes a line per step into
`steps.<member>`, as the step begins: a step that is done again is there twice.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from typing import Any

import pytest
from launched import PATIENT, Job, ended, last_line
from stillness import wait_until_still

PYTHON = sys.executable
STEPS = 8

PROGRAM = """
import json, os, signal, sys, threading, time
import numpy as np
import hvdlite as hvd

MEMBER = int(os.environ["HVDLITE_MEMBER"])
def tell(**what):
    with open(f"said.{{MEMBER}}", "a") as file:
        file.write(json.dumps(what) + "\\n")
def write(name, text):  # the file has its text as soon as it is there
    with open(f"{{name}}.of.{{MEMBER}}", "w") as file:
        file.write(text)
    os.replace(f"{{name}}.of.{{MEMBER}}", name)
def happens(step): pass
{happens}
hvd.init()
state = hvd.elastic.ObjectState(hvd.broadcast_object, hvd.rank, step=0, weights=np.zeros(3))
def leaves(notice):
    assert hvd.elastic.leaving() is not None
    tell(step=state.step, generation=hvd.elastic.generation(), weights=state.weights[0],
         **vars(notice))
state.register_leave_callbacks([leaves])
write(f"pid.{{MEMBER}}", str(os.getpid()))
write("job", os.environ["HVDLITE_RENDEZVOUS"])

@hvd.elastic.run
def train(state):
    open(f"trains.{{MEMBER}}.{{hvd.size()}}", "w").close()
    while state.step < {steps} or not {done}:
        with open(f"steps.{{MEMBER}}", "a") as file:
            file.write(f"{{state.step}}\\n")
        happens(state.step)
        state.weights = state.weights + hvd.allreduce(np.ones(3), name="gradient")
        state.step += 1
        state.commit()
    assert (state.weights == state.step).all(), (state.weights, state.step)
    return f"member {{MEMBER}} of {{hvd.size()}}"

print("trained:", train(state), flush=True)
"""


def _program(job: Job, happens: str = "", done: str = "True", steps: int = STEPS) -> str:
    return job.script(PROGRAM.format(happens=happens, done=done, steps=steps))


def _said(job: Job, member: int) -> list[dict[str, Any]]:
    path = job.directory / f"said.{member}"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def _steps(job: Job, member: int) -> list[int]:
    """None, if it came when all were done."""
    path = job.directory / f"steps.{member}"
    return [int(line) for line in path.read_text().split()] if path.exists() else []


def _no_step_twice(job: Job, *members: int) -> None:
    for member in members:
        steps = _steps(job, member)
        first = steps[0] if steps else 0
        assert steps == list(range(first, first + len(steps))), (member, steps)


def _ended_well(job: Job, out: bytes, err: bytes, members: set[int]) -> None:
    trained = {member for member in range(1, 9) if f"trained: member {member} " in out.decode()}
    assert trained == members, err.decode()
    assert not re.search("member .* (ended|was)", err.decode()), err.decode()
    assert job.pids() == []


def _pid(job: Job, member: int) -> int:
    return int((job.directory / f"pid.{member}").read_text())


LEAVES = """
def happens(step):
    if step == 3 and MEMBER == 2:
        assert hvd.elastic.leaving() is None
        hvd.elastic.leave("enough of it")
        found = hvd.elastic.leaving()
        assert found.ranks == (1,) and found.this_rank and not found.whole_job, found
"""


def test_a_rank_that_leaves_goes_at_the_next_boundary_and_is_replaced(job: Job) -> None:
    program = _program(job, LEAVES, done="hvd.elastic.generation() == 3")
    done = job.end_well("-np", "3", "--min-np", "1", PYTHON, program)
    _ended_well(job, done.stdout, done.stderr, {1, 3, 4})
    _no_step_twice(job, 1, 2, 3, 4)
    assert _steps(job, 2) == [0, 1, 2, 3]
    notices = [_said(job, member) for member in (1, 2, 3)]
    for member, found in zip((1, 2, 3), notices, strict=True):
        assert len(found) == 1
        assert found[0]["step"] == found[0]["weights"] == 4
        assert (found[0]["ranks"], found[0]["members"]) == ([1], [2])
        assert found[0]["this_rank"] == (member == 2)
        assert found[0]["reason"] == "enough of it" and 0 < found[0]["seconds"] <= 30
    assert "leaves the job, as it was asked to (enough of it)" in done.stderr.decode()


def test_sigterm_to_a_rank_is_notice(job: Job) -> None:  # 24
    program = _program(job, done="hvd.elastic.generation() == 3")
    process = job.start("-np", "2", "--min-np", "1", PYTHON, program)
    job.wait_for_files(["trains.1.2", "trains.2.2"])
    os.kill(_pid(job, 1), signal.SIGTERM)
    out, err = ended(process)
    _ended_well(job, out, err, {2, 3})
    _no_step_twice(job, 1, 2, 3)
    first, second = _said(job, 1), _said(job, 2)
    assert len(first) == len(second) == 1 and first[0]["step"] == second[0]["step"]
    assert first[0]["this_rank"] and not second[0]["this_rank"]
    assert first[0]["reason"] == "SIGTERM" and not first[0]["whole_job"]


def test_sigterm_to_hvdliterun_lets_all_ranks_save_and_leave(job: Job) -> None:  # 24
    program = _program(job, done="False")
    process = job.start("-np", "2", "--min-np", "1", "--leave-seconds", PATIENT, PYTHON, program)
    job.wait_for_files(["trains.1.2", "trains.2.2"])
    process.send_signal(signal.SIGTERM)
    _, err = ended(process, 143)
    assert "was asked to end" in last_line(err)
    _no_step_twice(job, 1, 2)
    first, second = _said(job, 1), _said(job, 2)
    assert len(first) == len(second) == 1 and first[0]["step"] == second[0]["step"]
    assert first[0]["whole_job"] and first[0]["ranks"] == [0, 1]
    assert 0 < first[0]["seconds"] < float(PATIENT) + 1
    assert job.pids() == []


WAITS = """
def happens(step):
    if step == 3:
        open(f"waits.{MEMBER}", "w").close()
        while not (found := hvd.elastic.leaving()) or not found.whole_job:
            time.sleep(0.01)  # poll
"""


def test_sigterm_to_all_ranks_at_once_and_again_ends_the_job_in_order(job: Job) -> None:  # race 15
    process = job.start("-np", "2", "--min-np", "1", PYTHON, _program(job, WAITS, done="False"))
    job.wait_for_files(["waits.1", "waits.2"])
    for member in (1, 2, 1, 2):
        os.kill(_pid(job, member), signal.SIGTERM)
    _, err = ended(process, 143)
    assert "all members were asked to leave, and have left" in last_line(err)
    assert not re.search("member .* (ended|was)", err.decode())
    assert [_steps(job, member) for member in (1, 2)] == [[0, 1, 2, 3]] * 2
    assert [len(_said(job, member)) for member in (1, 2)] == [1, 1]
    assert job.pids() == []


SLEEPS = """
def happens(step):
    if step == 3 and MEMBER == 2:
        open("sleeps", "w").close()
        time.sleep(3600)  # until killed
"""


def test_a_rank_that_reaches_no_boundary_is_killed_when_its_time_is_up(job: Job) -> None:  # 25
    program = _program(job, SLEEPS, done="hvd.elastic.generation() >= 3")
    limits = ("--leave-seconds", "0.2", "--grace-seconds", PATIENT)
    process = job.start("-np", "3", "--min-np", "1", *limits, PYTHON, program)
    job.wait_for_files(["sleeps"])
    os.kill(_pid(job, 2), signal.SIGTERM)
    out, err = ended(process)
    assert "member 2 on localhost was ended: it has not left in time" in err.decode()
    trained = {line.split()[2] for line in out.decode().splitlines() if "trained:" in line}
    assert trained == {"1", "3", "4"}, err.decode()
    assert _steps(job, 1).count(3) == 2, "the step in which it was killed is done again"
    assert job.pids() == []


HANDLER = """
def handle(*_):
    open("handled", "w").close()
signal.signal(signal.SIGTERM, handle)
"""


def test_a_handler_of_the_program_is_left_alone(job: Job) -> None:
    program = _program(job, HANDLER, done="os.path.exists('handled')")
    process = job.start("-np", "1", "--min-np", "1", PYTHON, program)
    job.wait_for_files(["trains.1.1"])
    os.kill(_pid(job, 1), signal.SIGTERM)
    out, err = ended(process)
    _ended_well(job, out, err, {1})
    assert _said(job, 1) == []


WORKERS = """
def happens(step):
    if step == 3:
        import multiprocessing
        assert signal.getsignal(signal.SIGTERM) != signal.SIG_DFL
        context = multiprocessing.get_context("fork")
        runs = context.Event()
        worker = context.Process(target=lambda: runs.set() or signal.pause())
        worker.start()
        runs.wait()
        worker.terminate()
        worker.join(20)  # a bound of what hangs
        worker.kill()
        assert worker.exitcode == -signal.SIGTERM, worker.exitcode
"""


def test_a_worker_that_a_rank_forks_ends_by_sigterm(job: Job) -> None:
    done = job.end_well("-np", "1", "--min-np", "1", PYTHON, _program(job, WORKERS))
    _ended_well(job, done.stdout, done.stderr, {1})
    assert _said(job, 1) == []


def test_ranks_that_are_ended_do_not_take_sigterm_for_notice(job: Job) -> None:
    program = _program(job, SLEEPS, done="False")
    process = job.start("-np", "2", "--min-np", "1", "--grace-seconds", PATIENT, PYTHON, program)
    job.wait_for_files(["sleeps"])
    process.send_signal(signal.SIGINT)
    ended(process, 130)
    assert job.pids() == []


SLOTS = """
def happens(step):
    assert str(hvd.elastic.slot()) == os.environ["HVDLITE_SLOT"] == str((MEMBER - 1) % 2)
    assert hvd.elastic.member() == MEMBER
    if hvd.size() == 1:
        tell(slot=hvd.elastic.slot(), local_rank=hvd.local_rank())
    if step == 3 and MEMBER == 1:
        hvd.elastic.leave()
"""


def test_a_process_keeps_its_slot_when_its_neighbour_leaves(job: Job) -> None:
    program = _program(job, SLOTS, done="hvd.elastic.generation() == 3")
    done = job.end_well("-np", "2", "--min-np", "1", PYTHON, program)
    alone = [line for line in _said(job, 2) if "slot" in line]
    assert alone and all(line == {"slot": 1, "local_rank": 0} for line in alone)
    _ended_well(job, done.stdout, done.stderr, {2, 3})


def test_leave_outside_an_elastic_job_says_where_it_belongs(job: Job) -> None:
    program = job.script("import hvdlite as hvd; hvd.init(); hvd.elastic.leave()")
    done = job.run("-np", "1", PYTHON, program)
    assert done.returncode == 1
    assert "hvd.elastic.leave() is for elastic jobs" in done.stderr.decode()


def _leave(job: Job, *arguments: str) -> subprocess.CompletedProcess[str]:
    address = (job.directory / "job").read_text()
    return job.command(PYTHON, "-m", "hvdlite.tools", "leave", "--job", address, *arguments)


@pytest.mark.costly
def test_the_command_leave_lets_one_rank_or_all_of_this_host_leave(job: Job) -> None:
    process = job.start("-np", "3", "--min-np", "1", PYTHON, _program(job, done="False"))
    job.wait_for_files([f"trains.{member}.3" for member in (1, 2, 3)])

    wrong = _leave(job, "--slot", "7")
    assert wrong.returncode == 1
    assert "slot 7 of the job is not on this host, which has slots 0, 1, 2" in wrong.stderr

    done = _leave(job, "--slot", "1", "--reason", "a new disk")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("member 2 (slot 1) of the job at ")
    assert done.stdout.endswith(" has left.\n")
    job.wait_for_files([f"trains.{member}.3" for member in (1, 3, 4)])

    # Member 1 is rank 0, member 3 rank 1, and member 4, in slot 1, rank 2.
    assert _leave(job, "--rank", "5").stderr == (
        "hvdlite leave: that rank of the job is not on this host, which has ranks 0, 2, 1.\n"
    )
    done = _leave(job, "--rank", "1")
    assert "member 3 (slot 2)" in done.stdout, done.stderr
    job.wait_for_files([f"trains.{member}.3" for member in (1, 4, 5)])

    done = _leave(job, "--seconds", "500")
    assert done.returncode == 0, done.stderr
    _, err = ended(process, 143)
    assert "all members were asked to leave, and have left" in last_line(err)
    assert not re.search("member .* (ended|was)", err.decode())
    _no_step_twice(job, 1, 2, 3, 4, 5)
    assert [found["reason"] for found in _said(job, 1)] == ["a new disk"] + 2 * ["hvdlite leave"]
    assert _said(job, 1)[-1]["whole_job"] and _said(job, 1)[-1]["seconds"] > 400
    assert job.pids() == []


SPARES = """
def happens(step):
    open(f"at.{MEMBER}.{hvd.size()}", "w").close()
    if step == 3 and MEMBER == 2:
        open("waits.2", "w").close()
        signal.pause()
"""


def test_a_spare_takes_the_place_of_a_rank_that_dies(job: Job) -> None:  # 23
    program = _program(job, SPARES, done="hvd.elastic.generation() == 2")
    process = job.start("-np", "2", "--min-np", "1", "--spares", "1", PYTHON, program)
    job.wait_for_files(["waits.2", "pid.3"])
    wait_until_still(_pid(job, 3))  # in run, where it waits for a generation
    os.kill(_pid(job, 2), signal.SIGKILL)
    out, _ = ended(process)
    assert {line.split()[2] for line in out.decode().splitlines() if "trained" in line} == {
        "1",
        "3",
    }
    assert not list(job.directory.glob("at.*.1")), "no step was made by one rank alone"
    assert _steps(job, 1).count(3) == 2
    assert job.pids() == []


WAITS_FOR_SPARE = """
def happens(step):
    open(f"at.{MEMBER}.{hvd.size()}", "w").close()
    if step == 3 and MEMBER == 2:
        open("waits.2", "w").close()
        while not os.path.exists("now"):
            time.sleep(0.01)  # poll
        hvd.elastic.leave()
"""


def test_a_spare_takes_the_place_of_a_rank_that_leaves(job: Job) -> None:
    program = _program(job, WAITS_FOR_SPARE, done="hvd.elastic.generation() == 2")
    process = job.start("-np", "2", "--min-np", "1", "--spares", "1", PYTHON, program)
    job.wait_for_files(["waits.2", "pid.3"])
    wait_until_still(_pid(job, 3))
    (job.directory / "now").touch()
    out, err = ended(process)
    _ended_well(job, out, err, {1, 3})
    assert not list(job.directory.glob("at.*.1"))
    _no_step_twice(job, 1, 2, 3)


SETS = """
listed = hvd.ProcessSet([1, 2])
half = hvd.ProcessSet(lambda size: range(size // 2))
last = hvd.ProcessSet([3])
init, hvd.init = hvd.init, lambda: init(process_sets=[listed, half, last])
told = set()

def total(process_set):
    if not process_set.included():
        return None
    return int(hvd.allreduce(np.array([MEMBER]), op=hvd.Sum, process_set=process_set)[0])

def refused(process_set):
    try:
        hvd.allreduce(np.zeros(1), process_set=process_set)
    except ValueError as error:
        return str(error).partition(" has no rank: ")[2]

def happens(step):
    generation = hvd.elastic.generation()
    if generation not in told:
        told.add(generation)
        tell(generation=generation, listed=listed.ranks, half=half.ranks, last=last.ranks,
             total=total(listed), of_half=total(half), refused=refused(last) if generation > 1
             else "")
    if step >= 2 and (generation, MEMBER) in ((1, 4), (3, 2)):
        os.kill(os.getpid(), signal.SIGKILL)
"""


def test_process_sets_follow_their_members_and_rules(job: Job) -> None:  # 29
    program = _program(job, SETS, done="hvd.elastic.generation() == 5", steps=4)
    cooldown = ("--blacklist-cooldown-range", "0.01", "0.02")
    job.end_well("-np", "4", "--min-np", "1", *cooldown, PYTHON, program)
    gone = "all its members have left the job"
    expected = {  # by generation: listed, half, last, and members 1, 2, ... of it
        1: ([1, 2], [0, 1], [3], (1, 2, 3, 4), ""),
        2: ([1, 2], [0], [], (1, 2, 3), gone),
        3: ([1, 2], [0, 1], [], (1, 2, 3, 5), gone),
        4: ([1], [0], [], (1, 3, 5), gone),
        5: ([1], [0, 1], [], (1, 3, 5, 6), gone),
    }
    found = [(member, line) for member in range(1, 7) for line in _said(job, member)]
    assert {(line["generation"], member) for member, line in found} >= {
        (generation, member)
        for generation, (*_, members, _) in expected.items()
        for member in members
        if generation < 5
    }
    for member, line in found:
        listed, half, last, members, refused = expected[line["generation"]]
        assert (line["listed"], line["half"], line["last"]) == (listed, half, last)
        assert line["refused"] == refused
        rank = members.index(member)
        for ranks, total in ((listed, line["total"]), (half, line["of_half"])):
            inside = sum(members[each] for each in ranks)
            assert total == (inside if rank in ranks else None), (member, line)
    assert job.pids() == []
