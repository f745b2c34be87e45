"""The ranks' output on its way to the driver of a classic session, line by line.

    rank ──pipe──► task: Stream ──► Console ──► ToDriver ──► the driver's store ──► Listener

The key of the driver's store travels in the pickled function. Over Connect the tasks have no way to
the program, and the output stays in the logs of the executors.
"""

from __future__ import annotations

import contextlib
import os
import select
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TextIO

from hvdlite.launch import output, secret
from hvdlite.rendezvous import StoreClient, StoreServer, addresses
from hvdlite.rendezvous.addresses import Address

PREFIX = "said/"
_REACH_SECONDS = 10.0


@dataclass(frozen=True)
class DriverAddress:
    """Where the driver listens."""

    addresses: tuple[Address, ...]
    key: bytes = field(repr=False)


class ToDriver(output.Writer):
    """Writes to the driver. Whatever ends the connection, the rank goes on."""

    def __init__(self, client: StoreClient, partition: int, name: str) -> None:
        self._client, self._which, self._count = client, f"{PREFIX}{name}/{partition}", 0
        super().__init__(-1)

    def _write(self, data: memoryview) -> int:
        self._client.set(f"{self._which}/{self._count}", bytes(data))
        self._count += 1
        return len(data)


def reach(driver: DriverAddress) -> StoreClient | None:
    """Returns a connection with the driver, if the driver can be reached."""
    try:
        return addresses.reach(driver.addresses, driver.key, _REACH_SECONDS)[1]
    except ConnectionError:
        return None


class Listener:
    """Prints what the ranks say, in a thread. Its `address` goes to the tasks."""

    def __init__(self, host: str, stdout: TextIO | None, stderr: TextIO | None) -> None:
        key = secret.create()
        self.started: set[int] = set()  # partitions whose tasks run
        self._targets = {"stdout": stdout or sys.stdout, "stderr": stderr or sys.stderr}
        self._lines: dict[tuple[str, str], output.LineCutter] = {}
        self._store = StoreServer.reached(key, everywhere=True)
        self._watched = self._store.watch(PREFIX)
        self._store.start()
        port = self._store.address[1]
        names = dict.fromkeys([host, *addresses.of_this_machine()])
        self.address = DriverAddress(tuple((name, port) for name in names if name), key)
        self._end, self._ending = os.pipe()
        self._thread = threading.Thread(target=self._listen, name="hvd-spark-output", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Prints what has come, and ends."""
        os.close(self._ending)
        self._thread.join()
        self._print()
        for (name, _), lines in self._lines.items():
            self._say(name, lines.flush())
        for target in self._targets.values():
            with contextlib.suppress(Exception):  # a program's own stream may raise anything
                target.flush()
        self._store.close()
        os.close(self._end)

    def _listen(self) -> None:
        both = select.poll()  # select() refuses descriptors above 1023, and programs have them
        for descriptor in (self._watched.fileno(), self._end):
            both.register(descriptor, select.POLLIN)
        while all(descriptor != self._end for descriptor, _ in both.poll()):
            self._print()

    def _print(self) -> None:
        for key, value in self._watched.take():
            self._store.delete(PREFIX + key)
            name, _, which = key.partition("/")
            partition = which.partition("/")[0]
            if name == "started":
                self.started.add(int(partition))
                continue
            lines = self._lines.setdefault((name, partition), output.LineCutter())
            for line in lines.feed(value):
                self._say(name, line)

    def _say(self, name: str, line: bytes) -> None:
        if line:
            with contextlib.suppress(Exception):
                self._targets[name].write(line.decode("utf-8", "backslashreplace"))


def say_started(client: StoreClient, partition: int) -> None:
    """The task of this partition runs."""
    client.set(f"{PREFIX}started/{partition}", b"")


def started(listener: Listener | None, size: int) -> Sequence[int] | None:
    """Returns the partitions whose tasks do not run yet; None if no task can tell."""
    if listener is None:
        return None
    return sorted(set(range(size)) - listener.started)
