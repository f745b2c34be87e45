"""Reports of a rank: a few numbers now and then to the job's store, which `hvdliterun --monitor`
and `hvdlite top` show.

A thread of its own writes them. Without HVDLITE_MONITOR it sleeps until `hvdlite top` is attached:
the launcher then sets a key for which the thread waits.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any

from hvdlite.base.knobs import KNOBS, Value
from hvdlite.job import observe, where
from hvdlite.job.observe import Recent
from hvdlite.launch.monitor import WANTED, ReportRequest, report_key
from hvdlite.rendezvous import StoreClient

_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_PATIENCE = 5.0  # seconds that init() gives the store to answer
_pulse: _Pulse | None = None


class _Pulse:
    """`seconds`: the time between two reports; 0: while they are wanted, as often as is wanted."""

    def __init__(self, rank: int, client: StoreClient, seconds: float, recent: Recent) -> None:
        self._key = report_key(rank)
        self._client = client
        self._seconds = seconds
        self._stopped = threading.Event()
        self._recent = recent
        self._asleep = False
        self._dump = 0  # the last one that was asked for
        self._thread = threading.Thread(target=self._run, name="hvdlite-pulse", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        if self._asleep:
            self._client.close()
        self._thread.join(5.0)

    def _run(self) -> None:
        try:
            with self._client as client:
                if self._seconds:
                    self._report_always(client)
                else:
                    self._report_while_wanted(client)
        except (ConnectionError, ValueError):
            return  # without a launcher it has no reader, or stop() has woken it up

    def _report_always(self, client: StoreClient) -> None:
        while not self._stopped.wait(self._seconds):
            self._send(client)
            with contextlib.suppress(TimeoutError):  # nothing is attached
                self._obey(client.get(WANTED, 0.0))
        self._say_goodbye(client)

    def _report_while_wanted(self, client: StoreClient) -> None:
        while True:
            self._asleep = True
            if self._stopped.is_set():
                return
            request = self._obey(client.get(WANTED))
            self._asleep = False
            if request.reports:
                self._send(client)
            if self._stopped.wait(request.seconds):
                break
        self._say_goodbye(client)

    def _obey(self, value: bytes) -> ReportRequest:
        request = ReportRequest.decode(value)
        if request.dump not in (0, self._dump):
            self._dump = request.dump
            where.report()
        return request

    def _send(self, client: StoreClient) -> None:
        client.set(self._key, _encoded(self._report()))

    def _say_goodbye(self, client: StoreClient) -> None:
        last = self._report(last=True)
        # After shutdown() there are no counters any more.
        told = last if last["counters"] else {}
        client.set(self._key, _encoded({"left": True} | told))

    def _report(self, last: bool = False) -> dict[str, Any]:
        from hvdlite.base import processors  # as in _encoded()

        counters = observe.metrics()
        seen = self._recent.look(counters.get("operations", 0), last)
        found = {
            "clock": time.monotonic(),
            "counters": counters,
            "seen": seen._asdict(),
            "process": _process(),
            "processors": processors.here(),
        }
        details = self._recent.details
        return found | ({"details": details} if details else {})


def _encoded(report: dict[str, Any]) -> bytes:
    import json  # most ranks are never watched: they report nothing

    return json.dumps(report).encode()


def _process() -> dict[str, float]:
    """Returns this process's seconds of processor time and bytes of memory."""
    import resource

    used = resource.getrusage(resource.RUSAGE_SELF)
    try:
        with open("/proc/self/statm", "rb") as file:
            memory = int(file.read().split()[1]) * _PAGE_BYTES
    except (OSError, ValueError, IndexError):
        memory = used.ru_maxrss * 1024
    return {"cpu_seconds": used.ru_utime + used.ru_stime, "memory": memory}


# Values that hvdliterun itself sets.
_LAUNCHERS = {"monitor_seconds": 1.0, "monitor_details": True, "cpu_operations": "gloo"}


class DetailedRecent(Recent):
    """What rank 0 also reports with HVDLITE_MONITOR_DETAILS, for `hvdlite report`: its slowest
    tensors, versions and knobs."""

    wants_all = True

    def __init__(self, values: Mapping[str, Value]) -> None:
        super().__init__()
        from hvdlite.observe.report.details import Tally

        self._tally = Tally()
        self._knobs = changed(values)

    def take(self, recent: Sequence[dict[str, Any]]) -> None:
        self._tally.take(recent)
        seen = self._tally.details()
        seen.versions, seen.knobs = observe.versions(), self._knobs
        self.details = seen.encode()


def changed(values: Mapping[str, Value]) -> dict[str, str]:
    """The knobs that have another value than their default, by the name of their variable, without
    secrets. Pure."""
    from hvdlite.base import bundle

    found = {
        knob.environment[0]: str(values[knob.field])
        for knob in KNOBS
        if values.get(knob.field, knob.default) not in (knob.default, _LAUNCHERS.get(knob.field))
    }
    return bundle.without_secrets(found)


def start(
    rank: int, store: tuple[str, int], secret: bytes, seconds: float, values: Mapping[str, Value]
) -> None:
    """Called by init(). `seconds`: the time between two reports; 0: only while they are wanted.
    `values`: of all knobs."""
    global _pulse
    stop()
    # Not in the thread: a program that forks meanwhile, as torch's loaders of data do, would copy
    # the locks that OpenSSL takes for the handshake.
    try:
        client = StoreClient(store, secret, _PATIENCE)
    except ConnectionError:
        return  # there is no reader, or no descriptor left
    _pulse = _Pulse(rank, client, seconds, _recent(rank, values))


def _recent(rank: int, values: Mapping[str, Value]) -> Recent:
    if rank != 0 or not values["monitor_details"]:
        return Recent()
    return DetailedRecent(values)


def stop() -> None:
    """Called when the job ends. The thread must be gone before the interpreter ends."""
    global _pulse
    if _pulse is not None:
        _pulse.stop()
    _pulse = None
