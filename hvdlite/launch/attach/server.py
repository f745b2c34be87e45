"""The socket and its connections, for a loop that must never wait.

All of them are behind one descriptor, which is readable when there is something to do.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import socket
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hvdlite.launch.attach import directory

_MOST_CLIENTS = 16
_REQUEST_BYTES = 4096
# A reader that is this far behind has stopped reading.
_BACKLOG_BYTES = 4 << 20


class Client:
    """A connection. `watches`: it wants the ranks again and again."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.watches = False
        self.request = b""
        self.out = b""


class Server:
    """`ask(client, what)` answers a request by send()."""

    def __init__(self, ask: Callable[[Client, str], None]) -> None:
        self._ask = ask
        self._listener: socket.socket | None = None
        self._path: Path | None = None
        self._clients: dict[int, Client] = {}
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
        self._clients[sock.fileno()] = Client(sock)
        self._poll.register(sock.fileno(), select.EPOLLIN)

    def fileno(self) -> int:
        return self._poll.fileno()

    @property
    def watchers(self) -> list[Client]:
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

    def send(self, client: Client, answer: Any) -> None:
        client.out += json.dumps(answer).encode() + b"\n"
        self._flush(client)

    def close(self) -> None:
        """What the clients were sent arrives, as far as the kernel has room for it."""
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
            return
        self.admit(sock)

    def _read(self, client: Client) -> None:
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

    def _flush(self, client: Client) -> None:
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

    def _drop(self, client: Client) -> None:
        del self._clients[client.sock.fileno()]
        self._poll.unregister(client.sock.fileno())
        client.sock.close()


def _user_of(sock: socket.socket) -> int:
    """The user of the process at the other end."""
    size = struct.calcsize("3i")
    credentials = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size)
    return int(struct.unpack("3i", credentials)[1])
