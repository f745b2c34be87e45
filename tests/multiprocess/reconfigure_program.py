"""A process whose group is reconfigured: see test_torch_reconfigure.py.

    reconfigure_program.py NAME HISTORY

Each process has a name. The handles go through files in the working directory. From torch 2.14 on
torch's own functions are called; before, the group's methods, which these call.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Collection
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import torch
from torch import distributed as dist

from hvdlite import HorovodInternalError
from hvdlite.torch.distributed.reconfigurable import Reconfigurable

NAME = sys.argv[1]
OURS = torch.torch_version.TorchVersion(torch.__version__) >= "2.14"
THREE = ("a", "b", "c")


def say(*words: object) -> None:
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


def flag(name: str) -> None:
    open(name, "w").close()


def wait_for(*names: str) -> None:
    while not all(map(os.path.exists, names)):
        time.sleep(0.002)  # poll


class Group:
    """torch's functions, for this process."""

    def __init__(self) -> None:
        patience = timedelta(seconds=60)
        if OURS:
            how: dict[str, Any] = {"enable_reconfigure": True}
            dist.init_process_group(
                "hvdlite", rank=0, world_size=1, store=dist.HashStore(), timeout=patience, **how
            )
            self.group: Any = dist.group.WORLD
        else:
            self.group = Reconfigurable(
                SimpleNamespace(
                    store=dist.HashStore(), group_rank=0, group_size=1, timeout=patience
                )
            )
        with open(f"handle.{NAME}.new", "w") as file:
            file.write(self.group.get_reconfigure_handle())
        os.rename(f"handle.{NAME}.new", f"handle.{NAME}")

    def join(self, uuid: int, handles: Collection[str], seconds: float = 60) -> None:
        options = SimpleNamespace(uuid=uuid, handles=handles, timeout=timedelta(seconds=seconds))
        if not OURS:
            self.group.reconfigure(options).wait()
            return
        dist._reconfigure(uuid, handles, timeout=options.timeout).wait()

    def of(self, uuid: int, *names: str, seconds: float = 60) -> None:
        self.join(uuid, handles_of(*names), seconds)

    def sum(self, value: float = 1.0) -> float:
        tensor = torch.full((4,), value)
        self.group.allreduce([tensor]).wait()
        return float(tensor[0])

    def place(self) -> tuple[int, int]:
        return self.group.rank(), self.group.size()

    def error(self) -> str:
        known = hasattr(torch._C._distributed_c10d, "ErrorType")
        return str(self.group.get_error()).rpartition(".")[2] if known else "unknown"

    def end(self) -> None:
        if OURS:
            dist.destroy_process_group()
        else:
            self.group.shutdown()


def handles_of(*names: str) -> list[str]:
    wait_for(*(f"handle.{name}" for name in names))
    return [open(f"handle.{name}").read() for name in names]


def raised(kind: type[Exception] | tuple[type[Exception], ...], call: Callable[[], Any]) -> str:
    try:
        call()
    except kind as error:
        return str(error)
    raise AssertionError(f"{call} has raised nothing")


def one_after_another(group: Group) -> None:
    """All are alive: alone, all three, two, another order, a set, and what is refused."""
    assert "call reconfigure first" in raised(RuntimeError, group.sum)
    message = torch.zeros(1)
    assert "call reconfigure first" in raised(RuntimeError, lambda: group.group.send([message], 0))
    group.of(THREE.index(NAME), NAME)
    assert (group.place(), group.sum()) == ((0, 1), 1.0)
    group.of(10, *THREE)
    assert (group.place(), group.sum()) == ((THREE.index(NAME), 3), 3.0)
    rank = group.group.rank()
    sent = group.group.send([torch.full((2,), rank + 1.0)], (rank + 1) % 3)
    message = torch.zeros(2)
    group.group.recv([message], (rank - 1) % 3).wait()
    sent.wait()
    assert message[0] == (rank - 1) % 3 + 1.0
    assert group.error() in ("SUCCESS", "unknown")
    assert "already used" in raised(RuntimeError, lambda: group.of(10, *THREE))
    others = [name for name in THREE if name != NAME]
    assert "own handle" in raised(ValueError, lambda: group.of(11, *others))
    assert "a handle is there twice" in raised(ValueError, lambda: group.of(11, NAME, NAME))
    assert "not a handle" in raised(ValueError, lambda: group.join(11, ["something else"]))
    assert group.sum() == 3.0, "what was refused has left the group as it was"
    flag(f"summed.{NAME}")
    wait_for(*(f"summed.{name}" for name in THREE))
    if NAME == "b":  # left out, it does nothing
        wait_for("done.a", "done.c")
    else:
        group.of(12, "c", "a")
        assert (group.place(), group.sum()) == (("ca".index(NAME), 2), 2.0)
        flag(f"done.{NAME}")
        wait_for("done.a", "done.c")
    group.join(13, set(handles_of(*THREE)))
    assert group.sum(1.0 + group.group.rank()) == 6.0
    group.end()
    assert "call reconfigure first" in raised(RuntimeError, group.sum)


def a_death(group: Group) -> None:
    """a, at whose store all have met, dies in the middle of their work. d comes later."""
    if NAME == "d":
        wait_for("done.b", "done.c")
    else:
        group.of(1, *THREE)
        assert group.sum() == 3.0
        if NAME == "a":
            flag("works.a")
            while True:
                group.sum()
        flag(f"works.{NAME}")
        began = 0.0
        try:
            while True:
                began = time.monotonic()
                group.sum()
        except HorovodInternalError as error:
            assert error.retryable, error
        assert group.error() in ("REMOTE_ERROR", "unknown"), group.error()
        group.of(2, "b", "c")
        assert (group.place(), group.sum()) == (("bc".index(NAME), 2), 2.0)
        say(f"next {1e3 * (time.monotonic() - began):.0f} ms")
        assert group.error() in ("SUCCESS", "unknown")
        flag(f"done.{NAME}")
    group.of(3, "b", "c", "d")
    assert (group.place(), group.sum()) == (("bcd".index(NAME), 3), 3.0)
    group.end()


def an_abort(group: Group) -> None:
    """b aborts while the others wait for it; then it does so itself, waiting for nothing."""
    for number in range(2):
        group.of(1 + number, *THREE)
        assert group.sum() == 3.0
        if NAME == "b":
            wait_for(*(f"waits.{number}.{name}" for name in "ac"))
            began = time.monotonic()
            group.group.abort()
        else:
            flag(f"waits.{number}.{NAME}")
            raised(HorovodInternalError, group.sum)
            began = time.monotonic()
            group.group.abort()
        assert group.error() in ("SUCCESS", "REMOTE_ERROR", "unknown")
        raised(HorovodInternalError, group.sum)
        group.of(11 + number, *THREE)
        assert group.sum() == 3.0
        say(f"mended in {1e3 * (time.monotonic() - began):.0f} ms")
    group.end()


def nobody_comes(group: Group) -> None:
    """c is named and does not come."""
    if NAME == "c":
        wait_for("done.a", "done.b")
        group.end()
        return
    began = time.monotonic()
    raised((TimeoutError, HorovodInternalError), lambda: group.of(1, *THREE, seconds=1.5))
    assert time.monotonic() - began > 1.4
    assert "call reconfigure first" in raised(RuntimeError, group.sum)
    group.of(2, "a", "b")
    assert group.sum() == 2.0
    flag(f"done.{NAME}")
    group.end()


def late(group: Group) -> None:
    """c does not take part in an operation, for longer than the group's patience."""
    group.of(1, *THREE, seconds=1)
    if NAME == "c":
        wait_for("told.a", "told.b")
    else:
        text = raised(HorovodInternalError, group.sum)
        assert "stalled" in text, text
        assert group.error() in ("TIMEOUT", "unknown"), group.error()
        flag(f"told.{NAME}")
    group.of(2, *THREE)
    assert group.sum() == 3.0
    group.end()


if __name__ == "__main__":
    globals()[sys.argv[2]](Group())
    say("well")
