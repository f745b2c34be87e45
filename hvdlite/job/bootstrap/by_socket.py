"""The channel for jobs whose ranks are all on one host: a socket that shows each side the user of
the other (SO_PEERCRED). Rank 0 tells its offer to processes of its own user only, and the others
trust only their own user.

The name of the socket follows from what all ranks know. A stranger may know it as well, and take
the name before rank 0 does. Rank 0 then takes the next name, and the ranks do not trust the
listener at the first. An abstract name ends with the process. Like the loopback, it belongs to the
network namespace.
"""

from __future__ import annotations

import errno
import logging
import os
import socket
import struct
import threading
import time
from dataclasses import dataclass

from hvdlite.job.bootstrap import by_ports
from hvdlite.job.bootstrap.offer import MAX_BYTES, Offer, when_all_are_here

_log = logging.getLogger("hvdlite")
_CANDIDATES = 4
_BACKLOG = 1024
_PAUSE = 0.02
# A connected client gets its answer at once, unless a frozen process holds the name.
_ANSWER_SECONDS = 5.0
_CREDENTIALS = struct.Struct("iII")


@dataclass(frozen=True)
class Peer:
    """The process at the other end of a connection."""

    pid: int
    user: int


def names(job: str) -> list[str]:
    """Returns the names to try, in order."""
    digests = by_ports.digests(job, b"socket")
    return [f"\0hvdlite-{next(digests).hex()[:32]}" for _ in range(_CANDIDATES)]


def say(job: str, has_secret: bool, text: bytes | None, seconds: float) -> bytes:
    """A channel. `has_secret`: this rank was given the job's secret. The other end proves that it
    knows it, so every user is accepted."""
    if text is None:
        return _hear(job, has_secret, seconds)
    listener = _listeners.get(job)
    if listener is None:
        listener = _listeners[job] = _Listener(_listen(job, time.monotonic() + seconds), has_secret)
        when_all_are_here(lambda: _close(job))
    listener.tell(text)
    return text


class _Listener:
    """Rank 0's end, with a thread. It stays until all ranks have come."""

    def __init__(self, listener: socket.socket, to_everybody: bool) -> None:
        self._listener = listener
        self._to_everybody = to_everybody
        self._text = b""
        self._thread: threading.Thread | None = None

    def tell(self, text: bytes) -> None:
        self._text = text
        if self._thread is None:
            self._thread = threading.Thread(target=self._serve, name="hvd-listener", daemon=True)
            self._thread.start()

    def close(self) -> None:
        try:
            self._listener.shutdown(socket.SHUT_RDWR)  # ends accept()
        except OSError:
            pass
        self._listener.close()

    def _serve(self) -> None:
        refused: set[int] = set()
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError as error:
                if error.errno not in (
                    errno.EMFILE,
                    errno.ENFILE,
                    errno.ECONNABORTED,
                    errno.ENOBUFS,
                    errno.ENOMEM,
                ):
                    return  # it was closed
                time.sleep(_PAUSE)
                continue
            try:
                with sock:
                    sock.settimeout(_ANSWER_SECONDS)
                    sock.sendall(self._answer(peer_of(sock), refused))
            except OSError:
                continue  # the other end has gone

    def _answer(self, peer: Peer, refused: set[int]) -> bytes:
        problem = "" if self._to_everybody else why_not(peer, os.geteuid())
        if not problem:
            return self._text
        if peer.user not in refused:
            refused.add(peer.user)
            _log.warning(
                "a process of another user wanted to join the job and was refused: %s", problem
            )
        return Offer(problem=f"rank 0 refuses this process: {problem}").encode()


_listeners: dict[str, _Listener] = {}


def _close(job: str) -> None:
    listener = _listeners.pop(job, None)
    if listener is not None:
        listener.close()


def _close_all() -> None:
    """Called in a forked child, which would keep the names of its parent."""
    for listener in _listeners.values():
        listener._listener.close()  # shutdown() would end the parent's socket, too
    _listeners.clear()


os.register_at_fork(after_in_child=_close_all)


def peer_of(sock: socket.socket) -> Peer:
    """Raises OSError if the system does not tell the peer."""
    pid, user, _ = _CREDENTIALS.unpack(
        sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    )
    return Peer(pid, user)


def why_not(peer: Peer, user: int) -> str:
    """Returns why a process of this user does not trust that peer; empty: it does."""
    if peer.user == user:
        return ""
    return (
        f"process {peer.pid} there runs as user {peer.user}, and process {os.getpid()} here as "
        f"user {user}. Run all ranks as one user, or set HVDLITE_SECRET_FILE on all of them"
    )


def _listen(job: str, deadline: float) -> socket.socket:
    """Raises ConnectionError if all names are taken, or if another job of this user has one."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        while True:
            taken: list[Peer] = []
            for name in names(job):
                try:
                    listener.bind(name)
                    listener.listen(_BACKLOG)
                    return listener
                except OSError as error:
                    if error.errno != errno.EADDRINUSE:
                        raise
                owner = _owner(name)
                taken += [] if owner is None else [owner]
                if owner is None or owner.user == os.geteuid():
                    break  # an earlier rank 0 may be about to end
            if time.monotonic() + _PAUSE > deadline:
                break
            time.sleep(_PAUSE)
    except BaseException:
        listener.close()
        raise
    listener.close()
    who = ", ".join(f"process {peer.pid} of user {peer.user}" for peer in taken)
    raise ConnectionError(
        f"on {socket.gethostname()}, {who or 'another process'} listens where the ranks of this "
        "job look for rank 0. Does another job here have the same number, or the same MASTER_ADDR "
        "and MASTER_PORT? End that job, or start the program with hvdliterun"
    )


def _owner(name: str) -> Peer | None:
    """Returns None if the other end has gone."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
        sock.settimeout(_ANSWER_SECONDS)
        try:
            sock.connect(name)
            return peer_of(sock)
        except OSError:
            return None


def _hear(job: str, has_secret: bool, seconds: float) -> bytes:
    deadline = time.monotonic() + seconds
    problem = "rank 0 does not listen there yet"
    while True:
        for name in names(job):
            try:
                return _ask(name, has_secret, deadline)
            except ConnectionRefusedError:
                continue  # no process listens there
            except OSError as error:
                problem = str(error)
        if time.monotonic() + _PAUSE > deadline:
            raise TimeoutError(
                f"no word from rank 0 within {seconds:.0f} s at the job's socket on "
                f"{socket.gethostname()}: {problem}. The launcher says that all ranks are on this "
                "host. If they are in several containers, these need one network namespace, or "
                "the ranks need HVDLITE_RENDEZVOUS"
            )
        time.sleep(_PAUSE)


def _ask(name: str, has_secret: bool, deadline: float) -> bytes:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
        sock.settimeout(min(_ANSWER_SECONDS, max(0.1, deadline - time.monotonic())))
        sock.connect(name)
        problem = "" if has_secret else why_not(peer_of(sock), os.geteuid())
        if problem:
            raise PermissionError(f"another user listens in place of rank 0: {problem}")
        said = b""
        while len(said) <= MAX_BYTES:
            piece = sock.recv(MAX_BYTES)
            if not piece:
                break
            said += piece
    if not said:
        raise ConnectionResetError("rank 0 closed the connection")
    return said
