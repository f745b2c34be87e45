"""Programs that get stuck, each by one fault on one rank, and the verdict that a tired person needs
for each.

`@line NAME` marks a line of a program; `{NAME}` in a verdict is its number.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

from machine import within

PRELUDE = """\
import ctypes, os, queue, signal, sys, threading, time
import numpy as np
import hvdlite as hvd
hvd.init()
rank = hvd.rank()
x = np.ones(4, np.float32)
def step(name="grad"):
    hvd.allreduce(x, name=name)  # @line step
for _ in range(3):
    step()
"""

# What holds a rank up until the job ends.
_LONG = 600

# A stall is told soon. It ends the job when even a busy machine has brought all ranks to where they
# get stuck.
LIMITS = {
    "HVDLITE_STALL_CHECK_TIME_SECONDS": "0.5",
    "HVDLITE_STALL_SHUTDOWN_TIME_SECONDS": f"{within(1):g}",
}


@dataclass(frozen=True)
class Stuck:
    """`verdict`: a pattern that the launcher's last line has, or that one line of the output has if
    `anywhere`. `ranks`: of the job. `full_disk`: the folder `full` has no room."""

    name: str
    program: str
    verdict: str
    ranks: int = 2
    variables: dict[str, str] = field(default_factory=lambda: dict(LIMITS))
    anywhere: bool = False
    prelude: str = PRELUDE
    needs: str = ""  # a module
    full_disk: bool = False

    def text(self) -> str:
        return self.prelude + self.program

    def pattern(self) -> str:
        lines = {
            match[1]: number
            for number, line in enumerate(self.text().splitlines(), 1)
            for match in re.finditer(r"@line (\w+)", line)
        }
        return re.sub(r"\{(\w+)\}", lambda match: str(lines[match[1]]), self.verdict)

    def write(self, folder: Path) -> Path:
        path = folder / "train.py"
        path.write_text(self.text())
        return path


def _missing(rank: int, operation: str, where: str, waiting: str) -> str:
    return rf"rank {rank} has not asked for {operation} for \d+ s: {where}; {waiting}"


def _busy(where: str) -> str:
    return rf"it is in {where} and has submitted nothing for \d+ s"


_STEP = r"train\.py:{step} \(step\)"

FAULTS = (
    Stuck(
        "a rank sleeps in the user's code",
        f"""
def evaluate():
    time.sleep({_LONG})  # until killed; @line there
if rank == 1:
    evaluate()
step()
""",
        _missing(1, "allreduce 'grad'", _busy(r"train\.py:{there} \(evaluate\)"),
                 rf"ranks 0 and 2 wait in {_STEP}"),
        ranks=3,
    ),
    Stuck(
        "a rank waits for a lock that it has",
        """
lock = threading.Lock()
def save():
    with lock:
        lock.acquire()  # @line there
if rank == 1:
    save()
step()
""",
        _missing(1, "allreduce 'grad'", _busy(r"train\.py:{there} \(save\)"),
                 rf"rank 0 waits in {_STEP}"),
    ),
    Stuck(
        "a rank waits for a queue that stays empty",
        """
def load():
    return queue.Queue().get()  # @line there
if rank == 1:
    load()
step()
""",
        _missing(1, "allreduce 'grad'",
                 _busy(r"train\.py:{there} \(load\), in \w+\.py:\d+ \([\w.]+\)"),
                 rf"rank 0 waits in {_STEP}"),
    ),
    Stuck(
        "a worker of a DataLoader hangs",
        f"""
import torch
class Samples(torch.utils.data.Dataset):
    def __len__(self): return 8
    def __getitem__(self, i):
        if i == 4: time.sleep({_LONG})  # until killed
        return torch.ones(1)
def train():
    for batch in torch.utils.data.DataLoader(Samples(), 2, num_workers=rank):  # @line there
        if rank == 1: step()
if rank == 1:
    train()
while True:
    step()  # @line go
""",
        _missing(1, "allreduce 'grad'",
                 _busy(r"train\.py:{there} \(train\), waiting for a worker of the "
                       r"DataLoader in .+"),
                 rf"rank 0 waits in {_STEP}"),
        needs="torch",
    ),
    Stuck(
        "C code has the interpreter lock",
        f"""
def native():
    ctypes.PyDLL(None).sleep({_LONG})  # until killed
if rank == 1:
    native()
step()
""",
        _missing(1, "allreduce 'grad'",
                 r"it has held the interpreter lock \(GIL\) in C code for at least \d+ s and has "
                 r"submitted nothing for \d+ s",
                 rf"rank 0 waits in {_STEP}"),
    ),
    Stuck(
        "one rank has another order",
        """
names = ["layer3", "layer4"]
def backward(names):
    for name in names:
        hvd.allreduce(x, name=name)  # @line there
backward(names)
backward(names[::-1] if rank == 1 else names)
""",
        _missing(1, "allreduce 'layer3'",
                 r"it asks for allreduce 'layer4' instead, in train\.py:{there} \(backward\)",
                 r"ranks 0 and 2 wait in train\.py:{there} \(backward\)\. The ranks ask for "
                 r"the same operations in another order"),
        ranks=3,
    ),
    Stuck(
        "only rank 0 calls a collective",
        """
if rank == 0:
    hvd.broadcast(x, 0, name="weights")  # @line there
step()
""",
        _missing(0, "allreduce 'grad'",
                 r"it asks for broadcast 'weights' instead, in train\.py:{there}",
                 rf"ranks 1 and 2 wait in {_STEP}\. Rank 0 has left the loop after 3 steps, and "
                 r"ranks 1 and 2 go on: .+, or a branch that depends on the rank"),
        ranks=3,
    ),
    Stuck(
        "a rank has fewer steps, and goes on behind its loop",
        """
for _ in range(5 if rank == 2 else 7):
    step()
hvd.allreduce(x, name="accuracy")  # @line behind
""",
        r"Rank 2 has left the loop after 8 steps, and ranks 0 and 1 go on: uneven data",
        ranks=3,
    ),
    Stuck(
        "a rank has fewer steps, and ends",
        """
for _ in range(5 if rank == 2 else 7):
    step()
""",
        r"rank 2 called hvd\.shutdown\(\) or reached the end of its program\. "
        r"That was after 8 steps.+hvd\.join\(\), or a sampler that pads",
        ranks=3,
    ),
    Stuck(
        "a rank swallows an exception",
        """
for epoch in range(2):
    try:
        for i in range(3):
            if rank == 1 and epoch == 0 and i == 2:
                raise ValueError("bad sample")
            step()
    except ValueError:
        pass
    hvd.allgather(x, name="predictions")  # @line there
""",
        _missing(1, "allreduce 'grad'",
                 r"it asks for allgather 'predictions' instead, in train\.py:{there}",
                 rf"ranks 0 and 2 wait in {_STEP}"),
        ranks=3,
    ),
    Stuck(
        "different shapes",
        """
hvd.allreduce(np.ones(3 + rank), name="layer3")  # @line there
""",
        r"allreduce 'layer3': rank 0 sent shape \[3\], rank 1 sent shape \[4\]",
    ),
    Stuck(
        "different operations under one name",
        """
(hvd.allgather if rank == 1 else hvd.allreduce)(x, name="grads")  # @line there
""",
        r"asks for all\w+ 'grads' instead, in train\.py:{there}; .+\. One name stands for "
        r"different operations",
    ),
    Stuck(
        "a rank is stopped before the heartbeat's limit",
        """
if rank == 1:
    os.kill(os.getpid(), signal.SIGSTOP)
step()
""",
        r"rank 1 has not asked for allreduce 'grad' for \d+ s: it does not answer: its process \d+ "
        rf"is stopped \(SIGSTOP\); `kill -CONT \d+` lets it go on; rank 0 waits in {_STEP}",
    ),
    Stuck(
        "a rank is stopped for longer than the heartbeat's limit",
        """
if rank == 1:
    os.kill(os.getpid(), signal.SIGSTOP)
step()
""",
        r"rank 1 has given no sign of life for \d s: its process \d+ is stopped \(SIGSTOP\)",
        variables={"HVDLITE_HEARTBEAT_SECONDS": "1"},
    ),
    Stuck(
        "an exception",
        """
def load(path):
    raise KeyError("the missing label")  # @line there
if rank == 1:
    load("x")
step()
""",
        r"rank 1 on localhost exited with code 1: KeyError: 'the missing label' at "
        r"train\.py:{there} \(load\)",
        variables={},
    ),
    Stuck(
        "an exception, as the others are told",
        """
def load(path):
    raise KeyError("the missing label")  # @line there
if rank == 1:
    load("x")
step()
""",
        r"rank 1 failed: KeyError: 'the missing label' at train\.py:{there} \(load\)",
        variables={},
        anywhere=True,
    ),
    Stuck(
        "os._exit",
        """
if rank == 1:
    os._exit(3)
step()
""",
        r"rank 1 on localhost exited with code 3",
        variables={},
    ),
    Stuck(
        "killed",
        """
if rank == 1:
    os.kill(os.getpid(), signal.SIGKILL)
step()
""",
        r"rank 1 on localhost was killed by SIGKILL",
        variables={},
    ),
    Stuck(
        "a rank does not come to init()",
        f"""
import os, time
import hvdlite as hvd
if os.environ["HVDLITE_RANK"] == "1":
    time.sleep({_LONG})  # until killed
hvd.init()
""",
        r"rank 1 .*did not call hvd\.init\(\) within 1 s",
        prelude="",
        variables={"HVDLITE_START_TIMEOUT": "1"},
    ),
    Stuck(
        "a disk is full",
        """
import pathlib
def save():
    pathlib.Path("full/checkpoint").write_bytes(bytes(100_000))  # @line there
if rank == 1:
    save()
step()
""",
        r"rank 1 on localhost exited with code 1: OSError: \[Errno 28\] No space left on device at "
        r"train\.py:{there} \(save\)",
        variables={},
        full_disk=True,
    ),
    Stuck(
        "a NaN on one rank",
        """
def backward():
    gradient = x.copy()
    if rank == 1: gradient[2] = np.nan
    return hvd.allreduce(gradient, name="layer3")
if not np.isfinite(backward()).all():
    sys.exit("the loss is NaN")
""",
        r"rank 1 is the first to submit a NaN or an infinity: element 2 of 4 of allreduce 'layer3'",
        ranks=3,
        variables={"HVDLITE_NAN_WATCH": "1"},
        anywhere=True,
    ),
    Stuck(
        "a bit flips in one replica",
        """
import torch
import hvdlite.torch as hvd
model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Linear(3, 2))
hvd.broadcast_parameters(model.state_dict(), root_rank=0)
plain = torch.optim.SGD(model.parameters(), lr=0.01)
optimizer = hvd.DistributedOptimizer(plain, named_parameters=model.named_parameters())
def train(steps):
    for _ in range(steps):
        optimizer.zero_grad()
        model(torch.ones(2, 4)).sum().backward()
        optimizer.step()  # @line there
train(16)
if rank == 2:
    model[0].weight.data.view(torch.int32)[1, 2] ^= 1 << 20
train(16)
""",
        r"rank [0-2] on localhost exited with code 1: .*MismatchError: Parameter '0\.weight'"
        r"( \(and \d more\))? of rank 2 differs from that of the other 2 ranks, which agree "
        r"\(found in step (1[7-9]|2[0-4]) of this optimizer; it was still the same in step 1\d\)"
        r".+ at train\.py:{there} \(train\)",
        ranks=3,
        variables={"HVDLITE_DRIFT": "error", "HVDLITE_DRIFT_STEPS": "8"},
        needs="torch",
    ),
)  # fmt: skip
