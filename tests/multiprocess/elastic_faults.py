"""A program for tests of elastic jobs into which a test writes what happens to whom, and when.

It adds 1 to its weights in each step, as the average of all ranks, so that weights and steps agree
whatever has happened. Members leave files behind: `trains.<generation>.<size>.<member>`, whenever
their function is called, and what a test's own lines `flag()`.
"""

from __future__ import annotations

import sys

from launched import PATIENT, Job

PYTHON = sys.executable
QUICKLY = ("--blacklist-cooldown-range", "0.01", "0.02", "--leave-seconds", PATIENT)

# A launcher that announces newcomers at once, and runs the hosts' script often.
LAUNCHER = """
import sys
from hvdlite.launch import cli
from hvdlite.launch.elastic import host_discovery, state_machine
state_machine.TOGETHER_SECONDS = 0.05
host_discovery.DISCOVER_HOSTS_FREQUENCY_SECS = 0.05
{more}
sys.exit(cli.main())
"""

PROGRAM = """
import os, signal, sys, threading, time
import numpy as np
import hvdlite as hvd

MEMBER = int(os.environ["HVDLITE_MEMBER"])
def flag(name):
    open(f"{name}.new.{MEMBER}", "w").write(str(os.getpid()))
    os.replace(f"{name}.new.{MEMBER}", f"{name}.{MEMBER}")
def die():
    os.kill(os.getpid(), signal.SIGKILL)
def pid_of(name):
    return int(open(name).read())
def wait_for(*names):
    while not all(map(os.path.exists, names)): time.sleep(0.01)  # poll
def wait_to_be_killed(name):
    flag(name)
    while True: signal.pause()
def happens(step): pass
flag("starts")
@BEFORE
hvd.init()
state = hvd.elastic.ObjectState(steps=0, weights=np.zeros(3))
@PREPARED
@hvd.elastic.run
def train(state):
    flag(f"trains.{hvd.elastic.generation()}.{hvd.size()}")
    while state.steps < 12 or not (@DONE):
        happens(state.steps)
        state.weights = state.weights + hvd.allreduce(np.ones(3), name="gradient")
        state.steps += 1
        state.@END()
    assert (state.weights == state.steps).all(), (state.weights, state.steps)
    return f"member {MEMBER} is rank {hvd.rank()} of {hvd.size()}, step {state.steps}"

print("trained:", train(state), flush=True)
"""


def program(
    job: Job,
    before: str = "",
    prepared: str = "",
    done: str = "True",
    end: str = "step",
    launcher: str = "",
) -> str:
    """`before` runs before init(), `prepared` when the state is there."""
    job.launcher = [job.script(LAUNCHER.format(more=launcher), "launcher.py")]
    text = PROGRAM.replace("@BEFORE", before).replace("@PREPARED", prepared)
    return job.script(text.replace("@DONE", done).replace("@END", end))


def generations(job: Job, member: int) -> list[tuple[int, int]]:
    """Number and size of those in which this member has trained."""
    names = [path.name.split(".") for path in job.directory.glob(f"trains.*.*.{member}")]
    return sorted((int(number), int(size)) for _, number, size, _ in names)


def pid(job: Job, name: str) -> int:
    """Of the member that has left this file."""
    return int((job.directory / name).read_text())
