"""What a launcher answers to `hvdlite top`.

While something is attached, the ranks report (`WantedReports`). Otherwise they sleep, and so does
this. The sockets are behind one descriptor, because the launcher's loop must never wait.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import json
import os
import select
import shlex
import socket
import struct
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from hvdlite.base.mailbox import Mailbox
from hvdlite.launch.attach import directory
from hvdlite.launch.monitor import WANTED, ReportRequest, report_key
from hvdlite.launch.monitor.board import Board
from hvdlite.launch.observers import JobObserver, JobStatus
from hvdlite.rendezvous.server import StoreServer

_SECONDS = 1.0
_SHARE_OF_A_CORE = 0.01
# Nothing tells whether a rank has not come to init() yet or has called shutdown() already.
_ABSENT = "not between init() and shutdown()"

_MOST_CLIENTS = 16
_REQUEST_BYTES = 4096
# A reader that is this far behind has stopped reading.
_BACKLOG_BYTES = 4 << 20


class AttachedClient:
    """A connection. `watches`: it wants the ranks again and again."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.watches = False
        self.request = b""
        self.out = b""


class AttachServer:
    """The listening socket and its connections. `ask(client, what)` answers a request by send()."""

    def __init__(self, ask: Callable[[AttachedClient, str], None]) -> None:
        self._ask = ask
        self._listener: socket.socket | None = None
        self._path: Path | None = None
        self._clients: dict[int, AttachedClient] = {}
        self._poll = select.epoll()

    def listen(self, listener: socket.socket, path: Path) -> None:
        """Takes connections of this user from here on."""
        self._listener, self._path = listener, path
        self._poll.register(listener.fileno(), select.EPOLLIN)

    def admit(self, sock: socket.socket) -> None:
        """Takes a connection whose other side is known."""
        if len(self._clients) >= _MOST_CLIENTS:
            sock.close()
            return
        sock.setblocking(False)
        self._clients[sock.fileno()] = AttachedClient(sock)
        self._poll.register(sock.fileno(), select.EPOLLIN)

    def fileno(self) -> int:
        return self._poll.fileno()

    @property
    def watchers(self) -> list[AttachedClient]:
        return [client for client in self._clients.values() if client.watches]

    def serve(self) -> None:
        """Does what can be done at once."""
        for descriptor, events in self._poll.poll(0):
            if self._listener is not None and descriptor == self._listener.fileno():
                self._accept(self._listener)
            elif events & ~select.EPOLLOUT:
                self._read(self._clients[descriptor])
            else:
                self._flush(self._clients[descriptor])

    def send(self, client: AttachedClient, answer: Any) -> None:
        client.out += json.dumps(answer).encode() + b"\n"
        self._flush(client)

    def close(self) -> None:
        """Closes all connections. Clients still get what the kernel has taken. May be called
        twice."""
        if self._path is not None:
            directory.remove(self._path)
        for client in list(self._clients.values()):
            self._drop(client)
        if self._listener is not None:
            self._listener.close()
        self._poll.close()

    def _accept(self, listener: socket.socket) -> None:
        try:
            sock, _ = listener.accept()
        except (BlockingIOError, ConnectionAbortedError):
            return
        except OSError:  # no descriptor is left, and the listener would stay readable
            self._poll.unregister(listener.fileno())
            return
        if _user_of(sock) != os.geteuid():
            sock.close()
        else:
            self.admit(sock)

    def _read(self, client: AttachedClient) -> None:
        try:
            data = client.sock.recv(_REQUEST_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        *lines, client.request = (client.request + data).split(b"\n")
        if not data or len(client.request) > _REQUEST_BYTES:
            self._drop(client)
            return
        for line in lines:
            with contextlib.suppress(ValueError, KeyError, TypeError, RecursionError):
                self._ask(client, str(json.loads(line)["ask"]))

    def _flush(self, client: AttachedClient) -> None:
        if client.sock.fileno() < 0:  # dropped meanwhile
            return
        try:
            client.out = client.out[client.sock.send(client.out) :]
        except BlockingIOError:
            pass
        except OSError:
            self._drop(client)
            return
        if len(client.out) > _BACKLOG_BYTES:
            self._drop(client)
            return
        events = select.EPOLLIN | (select.EPOLLOUT if client.out else 0)
        self._poll.modify(client.sock.fileno(), events)

    def _drop(self, client: AttachedClient) -> None:
        del self._clients[client.sock.fileno()]
        self._poll.unregister(client.sock.fileno())
        client.sock.close()


def _user_of(sock: socket.socket) -> int:
    """The user of the process at the other end."""
    size = struct.calcsize("3i")
    credentials = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size)
    return int(struct.unpack("3i", credentials)[1])


# By then all ranks have looked, unless they are busy.
_DUMP_SECONDS = 3.0


class WantedReports:
    """What the launcher wants of the ranks, in the key WANTED of the job's store: reports while
    `hvdlite top` is attached, and a bundle when it asks for one. A rank that sleeps waits for the
    key, and one that reports anyway looks at it. `seconds`: the time between two reports."""

    def __init__(self, store: StoreServer, seconds: float) -> None:
        self._store, self._seconds = store, seconds
        self._reports = False
        self._dump, self._until = 0, 0.0
        self._dumps = itertools.count(time.time_ns())  # of no launcher before

    def reports(self, wanted: bool) -> None:
        self._reports = wanted
        self._put()

    def dump(self) -> None:
        """Asks all ranks once."""
        self._dump, self._until = next(self._dumps), time.monotonic() + _DUMP_SECONDS
        self._put()

    def tick(self) -> float | None:
        """Returns the seconds until the next call, if one is needed."""
        if not self._dump:
            return None
        left = self._until - time.monotonic()
        if left > 0:
            return left
        self._dump = 0  # a rank that comes later is not asked
        self._put()
        return None

    def _put(self) -> None:
        if self._reports or self._dump:
            self._store.put(
                WANTED, ReportRequest(self._reports, self._seconds, self._dump).encode()
            )
        else:
            self._store.delete(WANTED)


class Attachable(JobObserver):
    """`hosts`: the host of each rank, if the job is not elastic. `dumps`: the folder of its
    bundles; empty: ranks print their stacks. `log`: for --verbose."""

    _server: AttachServer  # since begin(), like `_guests`

    def __init__(
        self,
        command: Sequence[str],
        hosts: Mapping[int, str],
        dumps: str,
        log: Callable[[str], None],
    ) -> None:
        self._command, self._hosts, self._dumps, self._log = command, hosts, dumps, log
        self._began = time.time()
        self._store: StoreServer | None = None
        self._guests: Mailbox[socket.socket] | None = None
        self._wanted: WantedReports | None = None
        self._status: Callable[[], JobStatus] | None = None
        self._board: Board | None = None  # while something is attached
        self._due = 0.0

    def begin(self, store: StoreServer, secret: bytes) -> None:
        self._store = store
        self._wanted = WantedReports(store, _SECONDS)
        self._server = AttachServer(self._asked)
        self._guests = store.guests()
        try:
            self._server.listen(*directory.listen(os.environ))
        except OSError as error:
            self._log(f"`hvdlite top` cannot find this job on this host: {error.strerror or error}")

    def ask(self, status: Callable[[], JobStatus]) -> None:
        self._status = status

    def calls(self) -> Mapping[int, Callable[[], None]]:
        if self._guests is None:
            return {}
        return {self._server.fileno(): self._server.serve, self._guests.fileno(): self._admit}

    def tick(self) -> float | None:
        if self._wanted is None:
            return None
        pauses = (self._wanted.tick(), self._show())
        return min((pause for pause in pauses if pause is not None), default=None)

    def _show(self) -> float | None:
        if self._board is None:
            return None
        now = time.monotonic()
        if now >= self._due:
            watchers = self._server.watchers
            if not watchers:
                self._detach()
                return None
            before = time.thread_time()
            shown = self._read(self._board, now)
            for client in watchers:
                self._server.send(client, shown)
            spent = (time.thread_time() - before) / _SHARE_OF_A_CORE
            self._due = now + max(_SECONDS, spent)
        return max(0.0, self._due - now)

    def end(self) -> None:
        if self._guests is not None:
            for client in self._server.watchers:
                self._server.send(client, {"ended": True})
        self.close()

    def close(self) -> None:
        if self._guests is not None:
            self._server.close()

    def _admit(self) -> None:
        """Takes connections from other hosts."""
        assert self._guests is not None
        for sock in self._guests.take():
            self._server.admit(sock)

    def _asked(self, client: AttachedClient, what: str) -> None:
        if what == "job":
            self._server.send(client, self._description())
        elif what == "ranks":
            self._attach(client)
        elif what == "dump":
            self._dump(client)
        else:
            self._server.send(client, {"error": f"this hvdliterun does not know {what!r}"})

    def _description(self) -> Mapping[str, Any]:
        present = self._present()
        hosts = present.names or set(present.hosts.values())
        return {
            "pid": os.getpid(),
            "launcher": socket.gethostname(),
            "command": shlex.join(self._command),
            "began": self._began,
            "ranks": len(present.hosts),
            "hosts": sorted(hosts),
        }

    def _attach(self, client: AttachedClient) -> None:
        assert self._wanted is not None
        client.watches = True
        if self._board is None:
            self._board = Board({}, _ABSENT)
            self._wanted.reports(True)
            # By then the ranks have reported twice, unless they are busy.
            self._due = time.monotonic() + 1.1 * _SECONDS

    def _detach(self) -> None:
        assert self._store is not None and self._board is not None and self._wanted is not None
        self._wanted.reports(False)
        for rank in self._board.ranks:
            self._store.delete(report_key(rank))
        self._board = None

    def _dump(self, client: AttachedClient) -> None:
        assert self._wanted is not None
        self._wanted.dump()
        self._server.send(client, {"asked": len(self._present().hosts), "dumps": self._dumps})

    def _present(self) -> JobStatus:
        return JobStatus(self._hosts, "") if self._status is None else self._status()

    def _read(self, board: Board, now: float) -> Mapping[str, Any]:
        assert self._store is not None
        present = self._present()
        board.become(present.hosts, present.line)
        board.read(self._store.peek, now)
        return {
            "heading": board.heading,
            "world_changes": present.changes,
            "taken": [each.sentence for each in board.taken(now)],
            "complete": board.heard_all,
            "rows": [dataclasses.asdict(row) for row in board.rows(now)],
        }
