"""The other side: a connection with a launcher of this user."""

from __future__ import annotations

import contextlib
import json
import socket
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hvdlite.launch.attach import directory

Message = Mapping[str, Any]
_ANSWER_SECONDS = 5.0


@dataclass(frozen=True)
class Found:
    """A job that runs here. `about`: None if its launcher does not answer."""

    pid: int
    path: Path
    about: Message | None


class Connection:
    """Raises OSError if nothing listens at `path`."""

    def __init__(self, path: Path) -> None:
        self._rest = b""
        self._sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._sock.settimeout(_ANSWER_SECONDS)
            self._sock.connect(str(path))
        except OSError:
            self._sock.close()
            raise

    def fileno(self) -> int:
        return self._sock.fileno()

    def ask(self, what: str) -> None:
        self._sock.sendall(json.dumps({"ask": what}).encode() + b"\n")

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

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()


def jobs_here(environ: Mapping[str, str]) -> Sequence[Found]:
    """Returns the jobs of this user whose launcher runs on this host, the oldest first."""
    found = []
    for pid, path in directory.sockets(environ):
        try:
            with Connection(path) as connection:
                connection.ask("job")
                found.append(Found(pid, path, connection.wait()))
        except ConnectionRefusedError:  # the number belongs to another process now
            directory.remove(path)
        except (OSError, EOFError):
            with contextlib.suppress(OSError):
                if path.exists():
                    found.append(Found(pid, path, None))
    return sorted(found, key=lambda job: job.about["began"] if job.about else float("inf"))
