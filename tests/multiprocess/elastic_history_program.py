"""What the ranks of elastic_history run: the state counts how often each sample was trained on."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

import hvdlite as hvd

MEMBER = int(os.environ["HVDLITE_MEMBER"])
SCHEDULE = json.loads(Path("schedule.json").read_text())
CURSOR = dict(SCHEDULE["cursor"])
LENGTH = CURSOR.pop("length")
STEP_SECONDS = 0.001


class Events:
    """The schedule's events as one member sees them: one in a generation."""

    def __init__(self) -> None:
        self._next = 0
        self._steps = -1  # of this generation
        self._last = 0  # the generation of the event before the next one

    def begin_generation(self) -> None:
        Path(f"pid.{hvd.elastic.generation()}.{hvd.rank()}").write_text(str(os.getpid()))
        self._steps = -1
        print(SCHEDULE["says"], file=sys.stderr, flush=True)
        self.at("entering")

    def over(self) -> bool:
        while os.path.exists(f"event.{self._next}"):
            self._last = int(Path(f"event.{self._next}").read_text())
            self._next += 1
        return self._next == len(SCHEDULE["events"])

    def begin_step(self) -> None:
        self._steps += 1

    def at(self, place: str) -> None:
        """Does what is due here."""
        if self.over() or self._last == hvd.elastic.generation():
            return
        event = SCHEDULE["events"][self._next]
        due = hvd.size() == event["size"] and self._steps >= event["after"]
        actor = (event["ranks"] or [0])[0]
        if not due or event["place"] != place or hvd.rank() != actor:
            return
        others = event["ranks"][1:]
        names = [f"pid.{hvd.elastic.generation()}.{rank}" for rank in others]
        while place == "entering" and not all(map(os.path.exists, names)):
            time.sleep(0.001)  # poll: they come there as well
        if all(map(os.path.exists, names)):
            for number in range(event["crashes"]):
                Path(f"crash.{self._next}.{number}").touch()
            self._note()
            self._do(event, [int(Path(name).read_text()) for name in names])

    def _note(self) -> None:
        """The event happens now, in this generation: a file that is never seen empty."""
        Path("event.new").write_text(str(hvd.elastic.generation()))
        os.replace("event.new", f"event.{self._next}")

    def _do(self, event: dict[str, Any], pids: list[int]) -> None:
        if event["kind"] == "slots":
            Path("hosts.new").write_text(f"localhost:{event['slots']}\n")
            os.replace("hosts.new", "hosts")
            return
        for pid in [*pids, os.getpid()]:
            os.kill(pid, signal.SIGKILL)


def crash_if_asked() -> None:
    for path in Path().glob("crash.*"):
        with contextlib.suppress(FileNotFoundError):
            path.unlink()
            raise RuntimeError(f"{path} was meant for member {MEMBER}")


crash_if_asked()
hvd.init()
events = Events()
cursor = hvd.elastic.Cursor(LENGTH, **CURSOR)
state = hvd.elastic.ObjectState(
    cursor=cursor, counts=np.zeros(LENGTH, np.int64), position=0, enough=False
)
log = os.open(f"log.{MEMBER}", os.O_CREAT | os.O_APPEND | os.O_WRONLY)
check_host_updates = state.check_host_updates


def inside() -> None:
    """The boundary is counted, and the ranks are about to agree on it."""
    events.at("inside")
    check_host_updates()


def copying() -> None:
    events.at("copying")
    make_copy()


make_copy = state._make_copy
state._make_copy = copying  # type: ignore[method-assign]
state.check_host_updates = inside  # type: ignore[method-assign]
end_of_step = getattr(state, SCHEDULE["end_of_step"])


def step(state: Any, indices: Any) -> None:
    events.begin_step()
    place = (cursor.epoch, cursor.sample, hvd.rank(), hvd.size(), indices.tolist())
    line = json.dumps([hvd.elastic.generation(), state.position, *place])
    os.write(log, (line + "\n").encode())
    events.at("begin")
    time.sleep(STEP_SECONDS)  # span: what a step computes
    mine = np.zeros(LENGTH + 1, np.int64)
    np.add.at(mine, indices, 1)
    mine[-1] = events.over()
    handle = hvd.allreduce_async(mine, op=hvd.Sum, name="counts")
    events.at("submitted")
    of_all = hvd.synchronize(handle)
    events.at("between")
    state.counts = state.counts + of_all[:-1]
    state.enough = state.enough or of_all[-1] == hvd.size()
    state.position += 1
    end_of_step()
    events.at("after")


@hvd.elastic.run
def train(state: Any) -> dict[str, Any]:
    events.begin_generation()
    # An epoch at least begins after the last event, so that the last size is in the history.
    while not state.enough or cursor.sample:
        for indices in cursor:
            step(state, indices)
            if state.enough and not cursor.sample:
                break
        if SCHEDULE["cursor"]["tail"] == "carry" and state.enough:
            break
    return {
        "counts": state.counts.tolist(),
        "position": state.position,
        "epoch": cursor.epoch,
        "repeated": cursor.repeated,
        "generation": hvd.elastic.generation(),
        "size": hvd.size(),
    }


said = train(state)
Path("end.new." + str(MEMBER)).write_text(json.dumps(said))
os.replace(f"end.new.{MEMBER}", f"end.{MEMBER}")
