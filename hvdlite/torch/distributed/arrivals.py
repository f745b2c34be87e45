"""Who has not come to a collective of another backend, such as NCCL.

torch numbers the collectives of each group in C++ and, from 2.14 on, calls a hook in front of each.
Every rank tells the job's store now and then how far it is and where its program is. Rank 0
compares, and says who the others wait for.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import json
import logging
import os
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from torch import distributed as dist
from torch._C import _distributed_c10d as _c10d

from hvdlite.adapter.agreement.presence import in_words
from hvdlite.base import knobs
from hvdlite.job import basics, frames, membership
from hvdlite.job.basics import JobStore
from hvdlite.torch.distributed.group import ProcessGroup

_log = logging.getLogger("hvdlite")
_dist: Any = dist.distributed_c10d  # type: ignore[attr-defined]
_watch: Watch | None = None
_HOOK = 0x68766431  # a number that torch knows a hook by


class Asked(NamedTuple):
    """How far a rank is in a group. `number`: of the last collective that it has asked for, from 0
    on; -1: none. `seconds`: since then."""

    number: int
    name: str
    seconds: float


class Report(NamedTuple):
    """Of one rank. `groups`: by the group's name, with the ranks that are in it."""

    place: str
    groups: Mapping[str, tuple[Asked, Sequence[int]]]

    def encode(self) -> bytes:
        return json.dumps(self).encode()

    @classmethod
    def decode(cls, text: bytes) -> Report:
        place, groups = json.loads(text)
        return cls(place, {name: (Asked(*asked), ranks) for name, (asked, ranks) in groups.items()})


def verdicts(reports: Mapping[int, Report], patience: float) -> dict[tuple[str, int], str]:
    """What is said, by the group's name and the collective's number. Nothing of a group in which
    some rank still goes on. Pure."""
    found = {}
    for name in sorted({name for report in reports.values() for name in report.groups}):
        members = next(r.groups[name][1] for r in reports.values() if name in r.groups)
        there = {r: reports[r].groups.get(name) for r in sorted(members) if r in reports}
        asked = {rank: each[0] for rank, each in there.items() if each is not None}
        if len(asked) < len(members) or any(a.seconds < patience for a in asked.values()):
            continue
        last = max(each.number for each in asked.values())
        behind = [rank for rank, each in asked.items() if each.number < last]
        waiting = [rank for rank in asked if rank not in behind]
        wanted = sorted({asked[rank].name for rank in waiting})
        if behind:
            where = "; ".join(f"rank {rank} is in {reports[rank].place}" for rank in behind)
            seconds = min(asked[rank].seconds for rank in waiting)
            who = f"{in_words(behind)} {'has' if len(behind) == 1 else 'have'}"
            others = f"{in_words(waiting)} wait{'s' if len(waiting) == 1 else ''}"
            what = f"{wanted[0]} {last}"
            found[name, last] = (
                f"{who} not come to {what} of torch's group {name!r}, for which {others} for "
                f"{seconds:.0f} s: {where}"
            )
        elif len(wanted) > 1:
            what = "; ".join(f"{asked[r].name} in {reports[r].place} on rank {r}" for r in asked)
            found[name, last] = (
                f"the ranks ask torch's group {name!r} for different collectives as number {last}: "
                f"{what}"
            )
    return found


class Watch:
    """`patience`: seconds without a new collective in a group, before rank 0 says something."""

    def __init__(self, store: JobStore, patience: float) -> None:
        self._store = store
        self._prefix = f"{store.prefix}torch.arrivals/"
        self._patience = patience
        self._groups: list[Any] = []
        self._asked: list[tuple[int, Any, float]] = []  # by the group's place in the list
        self._said: set[tuple[str, int]] = set()
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    def add(self, group: Any) -> None:
        """What torch has made: a group in C++, or what stands for it where this rank is not in it.
        Ours says by itself who is missing. Without a group of another backend there is no thread.
        """
        if group is None or isinstance(group, ProcessGroup):
            return
        if self._thread is None:
            store = self._store.connect()
            self._thread = threading.Thread(
                target=self._run, args=(store,), name="hvdlite-arrivals", daemon=True
            )
            self._thread.start()
            atexit.register(self.stop)
        if group in self._groups or not hasattr(group, "register_pre_hook"):
            return
        asked, place = self._asked, len(self._groups)
        asked.append((-1, "", time.monotonic()))
        self._groups.append(group)

        def hook(call: Any) -> None:  # has no reference to the group, which has one to it
            asked[place] = (call.op_id, call.name, time.monotonic())

        group.register_pre_hook(_HOOK, hook)

    def stop(self) -> None:
        self._over.set()
        if self._thread is not None:
            self._thread.join(5.0)

    def _run(self, connected: Any) -> None:
        with contextlib.suppress(ConnectionError, ValueError), connected as client:
            while not self._over.wait(min(5.0, self._patience / 3)):
                if self._groups:
                    client.set(f"{self._prefix}{basics.rank()}", self._report().encode())
                if basics.rank() == 0:
                    self._compare(client)

    def _report(self) -> Report:
        world, now, found = _dist._world, time.monotonic(), {}
        for place, group in enumerate(self._groups):
            if group in world.pg_names and group in world.pg_group_ranks:
                number, name, since = self._asked[place]
                asked = Asked(number, getattr(name, "name", name).lower(), now - since)
                found[world.pg_names[group]] = asked, sorted(world.pg_group_ranks[group])
            elif self._asked[place][0] >= 0:  # the program has destroyed it
                self._groups[place] = None
        return Report(frames.of_main_thread().text, found)

    def _compare(self, client: Any) -> None:
        reports = {}
        for rank in range(basics.size()):
            with contextlib.suppress(TimeoutError):
                reports[rank] = Report.decode(client.get(f"{self._prefix}{rank}", 0.0))
        for what, text in verdicts(reports, self._patience).items():
            if what not in self._said:
                self._said.add(what)
                _log.warning("%s", text)


def watch(group: Any) -> None:
    """From now on, the groups that torch makes, and this one, if there is one."""
    global _watch
    if _watch is not None:
        _watch.add(group)
        return
    store = basics.job_store()
    changes = membership.member() is not None  # the ranks do
    if not hasattr(_c10d, "PreHookArgs") or store is None or changes:  # before torch 2.14
        return
    values = knobs.resolve(os.environ)
    if values["stall_check_disable"]:
        return
    _watch = Watch(store, float(values["stall_check_time_seconds"]))
    _watch.add(group)
    _dist._new_process_group_helper = _watched(_dist._new_process_group_helper)


def _watched(make: Any) -> Any:
    @functools.wraps(make)
    def made(*given: Any, **named: Any) -> Any:
        found = make(*given, **named)
        watch(found[0])
        return found

    return made
