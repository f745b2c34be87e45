"""The other side: a connection with a launcher of this user, on this host or on another one."""

from __future__ import annotations

import contextlib
import json
import socket
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from hvdlite.launch.attach import directory
from hvdlite.rendezvous.addresses import Address
from hvdlite.rendezvous.client import shake_hands
from hvdlite.rendezvous.protocol import PURPOSE_WATCH

Message = Mapping[str, Any]
_ANSWER_SECONDS = 5.0


@dataclass(frozen=True)
class FoundJob:
    """A job of this user. `connect`: to its launcher; raises OSError. `about`: None if the launcher
    does not answer."""

    pid: int
    connect: Callable[[], LauncherConnection]
    about: Message | None


class LauncherConnection:
    """Lines of JSON, both ways."""

    def __init__(self, sock: socket.socket) -> None:
        self._rest = b""
        self._sock = sock

    @classmethod
    def at(cls, path: Path) -> LauncherConnection:
        """To a launcher on this host. Raises OSError if nothing listens at `path`."""
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            sock.settimeout(_ANSWER_SECONDS)
            sock.connect(str(path))
        except OSError:
            sock.close()
            raise
        return cls(sock)

    @classmethod
    def through(cls, address: Address, secret: bytes) -> LauncherConnection:
        """To the launcher whose store is at this address. Raises OSError."""
        return cls(dial(address, secret))

    def fileno(self) -> int:
        return self._sock.fileno()

    def ask(self, what: str) -> None:
        """Raises EOFError if the launcher has gone."""
        try:
            self._sock.sendall(json.dumps({"ask": what}).encode() + b"\n")
        except OSError:
            raise EOFError from None

    def receive(self, seconds: float) -> list[Message]:
        """Returns what has come, after at most so many seconds. Raises EOFError if the launcher has
        gone."""
        self._sock.settimeout(max(seconds, 1e-6))
        try:
            data = self._sock.recv(1 << 16)
        except (TimeoutError, BlockingIOError):
            return []
        except OSError:
            data = b""
        if not data:
            raise EOFError
        *lines, self._rest = (self._rest + data).split(b"\n")
        return [json.loads(line) for line in lines]

    def wait(self, seconds: float = _ANSWER_SECONDS) -> Message | None:
        """Returns the next message, or None if it does not come in time."""
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            for message in self.receive(left):
                return message
        return None

    def close(self) -> None:
        self._sock.close()

    def __enter__(self) -> LauncherConnection:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()


def jobs_here(environ: Mapping[str, str]) -> Sequence[FoundJob]:
    """Returns the jobs of this user whose launcher runs on this host, the oldest first."""
    found = []
    for pid, path in directory.sockets(environ):
        try:
            found.append(_ask(pid, partial(LauncherConnection.at, path)))
        except ConnectionRefusedError:  # the number belongs to another process now
            directory.remove(path)
        except (OSError, EOFError):
            with contextlib.suppress(OSError):
                if path.exists():
                    found.append(FoundJob(pid, partial(LauncherConnection.at, path), None))
    return _oldest_first(found)


def jobs_at(stores: Iterable[tuple[Address, bytes]]) -> Sequence[FoundJob]:
    """Returns the jobs whose stores are at these addresses, with their secrets, and whose launchers
    answer, probably on another host."""
    found = []
    for address, secret in stores:
        with contextlib.suppress(OSError, EOFError):
            job = _ask(0, partial(LauncherConnection.through, address, secret))
            if job.about is not None:
                about = {**job.about, "on": job.about["launcher"]}
                found.append(replace(job, pid=job.about["pid"], about=about))
    return _oldest_first(found)


def _ask(pid: int, connect: Callable[[], LauncherConnection]) -> FoundJob:
    with connect() as connection:
        connection.ask("job")
        return FoundJob(pid, connect, connection.wait())


def _oldest_first(jobs: Iterable[FoundJob]) -> Sequence[FoundJob]:
    return sorted(jobs, key=lambda job: job.about["began"] if job.about else float("inf"))


def dial(address: Address, secret: bytes) -> socket.socket:
    """Returns a connection with the process whose store is at this address; `StoreServer.guests()`
    has its other end. Raises OSError."""
    sock = socket.create_connection(address, _ANSWER_SECONDS)
    try:
        shake_hands(sock, secret, PURPOSE_WATCH, time.monotonic() + _ANSWER_SECONDS)
    except OSError:
        sock.close()
        raise
    return sock
