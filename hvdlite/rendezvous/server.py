"""The store server: a daemon thread (`serving`), and the requests of its own process."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import weakref
from collections.abc import Callable

from hvdlite.base.mailbox import Mailbox
from hvdlite.rendezvous import protocol
from hvdlite.rendezvous.attempts import PEER_LOST
from hvdlite.rendezvous.protocol import Operation, Request
from hvdlite.rendezvous.serving import Loop


class Watched(Mailbox[tuple[str, bytes]]):
    """Keys that clients have set below a prefix, without the prefix, and their values. The store's
    thread writes, and one other thread reads."""

    def __init__(self, prefix: str) -> None:
        super().__init__()
        self._prefix = prefix

    def heard(self, key: str, value: bytes) -> None:
        if key.startswith(self._prefix):
            self.put((key[len(self._prefix) :], value))


_BACKLOG = 4096


class StoreServer:
    """Serves the keys of one job to clients that know its secret.

    Listens from the constructor on, on `host` only. Answers from `start()` until `close()`. `rank`:
    the rank in whose process it runs, so the others can name it when it is gone. `private`: refuses
    clients at public addresses.
    """

    def __init__(
        self,
        secret: bytes,
        host: str = "127.0.0.1",
        port: int = 0,
        rank: int = protocol.NOBODY,
        private: bool = False,
    ) -> None:
        self._secret = protocol.check_secret(secret)
        if not host:
            raise ValueError(
                "the store needs an address to listen on (0.0.0.0 means every interface, :: those "
                "of IPv6 as well)"
            )
        family, kind, proto, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        self._listener = socket.socket(family, kind, proto)
        try:
            self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if host == "::":  # IPv4 as well, whatever the system's default is
                self._listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
            self._listener.bind(address)
            self._listener.listen(_BACKLOG)
        except OSError as error:
            self._listener.close()
            raise OSError(
                error.errno, f"the store cannot listen on {host} port {port}: {error.strerror}"
            ) from error
        self._listener.setblocking(False)
        self.address: tuple[str, int] = self._listener.getsockname()[:2]
        self._wake_reader, self._wake_writer = socket.socketpair()
        self._wake_reader.setblocking(False)
        self._thread: threading.Thread | None = None
        self._loop: Loop | None = None
        self._closing = False
        self._rank = rank
        self._private = private
        self._watched: Watched | None = None
        self._guests: Mailbox[socket.socket] | None = None
        _servers.add(self)

    @classmethod
    def reached(
        cls,
        secret: bytes,
        everywhere: bool,
        port: int = 0,
        rank: int = protocol.NOBODY,
        private: bool = False,
    ) -> StoreServer:
        """Listens by IPv6 and IPv4 where other hosts reach it; or, unless `everywhere`, on loopback
        only."""
        if not everywhere:
            return cls(secret, "127.0.0.1", port, rank)
        try:
            return cls(secret, "::", port, rank, private)  # IPv4 as well
        except OSError:  # a machine without IPv6; any other reason fails again below
            return cls(secret, "0.0.0.0", port, rank, private)

    def start(self) -> StoreServer:
        if self._thread is not None or self._closing:
            raise RuntimeError("a StoreServer starts once")
        heard = self._watched.heard if self._watched is not None else None
        self._loop = Loop(
            self._secret, self._listener, self._wake_reader, self._rank, heard, self._private
        )
        self._thread = threading.Thread(target=self._loop.run, name="hvd-store", daemon=True)
        self._thread.start()
        return self

    def close(self) -> None:
        """Ends every connection. May be called twice."""
        if self._closing:
            return
        self._closing = True
        self._wake_writer.send(b"x")
        if self._thread is not None:
            self._thread.join()
        for end in (self._listener, self._wake_reader, self._wake_writer):
            end.close()
        if self._watched is not None:
            self._watched.close()
        if self._guests is not None:
            for sock in self._guests.take():
                sock.close()
            self._guests.close()

    def peek(self, key: str) -> bytes | None:
        """Returns the value of a key, for the process that serves it. May be called from any
        thread."""
        return self._loop.table.peek(key) if self._loop is not None else None

    def put(self, key: str, value: bytes) -> None:
        """Sets a key from the process that serves it. May be called from any thread; returns at
        once."""
        self._order(lambda loop: loop.carry_out(Request(Operation.SET, key, 0, value)))

    def delete(self, key: str) -> None:
        """Removes the key and every key below it. May be called from any thread; returns at
        once."""
        self._order(lambda loop: loop.carry_out(Request(Operation.DELETE, key)))

    def call_off(self, rendezvous: str, sentence: str, rank: int = protocol.NOBODY) -> None:
        """Makes ranks that wait in this rendezvous, or join it later, get a PeerLostError. `rank`:
        whose loss is the reason. May be called from any thread; returns at once."""
        verdict = protocol.encode_verdict(rank, PEER_LOST, sentence)
        self._order(lambda loop: loop.call_off(rendezvous, verdict))

    def watch(self, prefix: str) -> Watched:
        """Returns what clients set below this prefix from now on. Only one prefix can be watched,
        and only before start()."""
        if self._thread is not None or self._watched is not None:
            raise RuntimeError("a StoreServer is watched once, from before it starts")
        self._watched = Watched(prefix)
        return self._watched

    def guests(self) -> Mailbox[socket.socket]:
        """Returns connections of clients that know the secret and want to watch the job
        (PURPOSE_WATCH), from now on. Call it once, after start()."""
        guests: Mailbox[socket.socket] = Mailbox()
        self._guests = guests
        self._order(lambda loop: loop.welcome(guests))
        return guests

    def _order(self, order: Callable[[Loop], None]) -> None:
        if self._loop is None:
            raise RuntimeError("the StoreServer has not started")
        self._loop.orders.append(order)
        # it is full, so the thread wakes up anyway, or it is closed
        with contextlib.suppress(OSError):
            self._wake_writer.send(b"o")

    def is_empty(self, besides: str = "") -> bool:
        """Whether no stored value is left, or only that of one key. May be called from any
        thread."""
        return self._loop is None or self._loop.table.is_empty(besides)

    def abandon(self) -> None:
        """Called in a forked child. Closes the descriptors that would hide the end of the parent
        from its clients."""
        self._closing = True
        for end in (self._listener, self._wake_reader, self._wake_writer):
            end.close()
        if self._loop is not None:
            self._loop.abandon()

    def __enter__(self) -> StoreServer:
        return self if self._thread is not None else self.start()

    def __exit__(self, *exc_info: object) -> None:
        self.close()


_servers: weakref.WeakSet[StoreServer] = weakref.WeakSet()


def _abandon_all() -> None:
    for server in list(_servers):
        server.abandon()


os.register_at_fork(after_in_child=_abandon_all)
