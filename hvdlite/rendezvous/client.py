"""The store's client in Python, for the launcher, the ranks' Python code and tests."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
from typing import Any

from hvdlite.rendezvous import protocol
from hvdlite.rendezvous.protocol import Operation, ReplyStatus, Request

# How long the server may take for a request without a wait, and in addition to a requested wait.
_PATIENCE = 60.0


class StoreClient:
    """One authenticated connection. Calls of several threads take turns, including calls that wait.

    `TimeoutError`: the key did not come in time; the connection continues. `ValueError`: the store
    cannot serve the request. `ConnectionError` (from the constructor also its `HandshakeError`):
    the connection cannot be used any more.
    """

    def __init__(self, address: tuple[str, int], secret: bytes, timeout: float = 30.0) -> None:
        self._who = f"the job's store at {address[0]} port {address[1]}"
        self._lock = threading.Lock()  # of the call that uses the socket
        self._ends = threading.RLock()  # of the call of close(); a signal handler may have one
        self._sent = 0
        self._received = 0
        self._broken: str | None = None
        secret = protocol.check_secret(secret)
        deadline = time.monotonic() + timeout
        try:
            self._sock = socket.create_connection((_name(address[0]), address[1]), timeout)
        except OSError as error:
            raise ConnectionError(
                f"cannot reach {self._who}: {error} (is the launcher still running?)"
            ) from error
        try:
            self._sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            shake_hands(self._sock, secret, protocol.PURPOSE_STORE, deadline)
        except OSError as error:
            self._sock.close()
            cause = None if isinstance(error, protocol.HandshakeError) else error
            raise protocol.HandshakeError(f"handshake with {self._who}: {error}") from cause
        except BaseException:
            self._sock.close()
            raise

    @property
    def socket(self) -> socket.socket:
        """For select(): it becomes readable when the server has gone. Do not read from it."""
        return self._sock

    def set(self, key: str, value: bytes) -> None:
        self._ask(Request(Operation.SET, key, 0, bytes(value)))

    def get(self, key: str, timeout: float | None = None) -> bytes:
        """Waits until the key exists; without a limit if `timeout` is None."""
        return self._ask(Request(Operation.GET, key, _millis(timeout)), timeout)

    def collect(self, key: str, n: int, timeout: float | None = None) -> list[bytes]:
        """Waits until key/0 ... key/(n-1) exist."""
        if not 0 <= n <= protocol.MAX_COLLECT:
            raise ValueError(f"cannot collect {n} keys")
        reply = self._ask(
            Request(Operation.COLLECT, key, _millis(timeout), protocol.encode_count(n)), timeout
        )
        return protocol.decode_values(reply, n)

    def add(self, key: str, amount: int) -> int:
        """Adds to a counter and returns the sum; a missing key counts as 0."""
        return protocol.decode_counter(
            self._ask(Request(Operation.ADD, key, 0, protocol.encode_counter(amount)))
        )

    def delete(self, key: str) -> None:
        """Removes the key and every key below ``key/``."""
        self._ask(Request(Operation.DELETE, key))

    def close(self) -> None:
        """Also ends a call that another thread is waiting in. That call then closes the socket: a
        number that is free may be another file's at once."""
        self._broken = self._broken or f"the connection with {self._who} was closed here"
        with self._ends:
            with contextlib.suppress(OSError):
                self._sock.shutdown(socket.SHUT_RDWR)
            if self._lock.acquire(blocking=False):
                try:
                    self._sock.close()
                finally:
                    self._lock.release()

    def __enter__(self) -> StoreClient:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def _ask(self, request: Request, timeout: float | None = 0.0) -> bytes:
        payload = protocol.encode_request(request)
        try:
            with self._lock:
                status, value = self._alone(request.key, payload, timeout)
        finally:
            if self._broken is not None:  # meanwhile, perhaps
                self.close()
        if status == ReplyStatus.TIMEOUT:
            raise TimeoutError(f"{value.decode(errors='replace')} (asked of {self._who})")
        if status == ReplyStatus.BAD_REQUEST:
            raise ValueError(f"{self._who} refused: {value.decode(errors='replace')}")
        return value

    def _alone(self, key: str, payload: bytes, timeout: float | None) -> tuple[ReplyStatus, bytes]:
        if self._broken is not None:
            raise ConnectionError(self._broken)
        deadline = None if timeout is None else time.monotonic() + timeout + _PATIENCE
        try:
            return self._exchange(payload, deadline)
        # Ctrl-C, too: the next call would read this call's reply
        except BaseException as error:
            self._broken = f"lost {self._who} while asking for {key!r}: {error}"
            if isinstance(error, OSError):
                raise ConnectionError(f"{self._broken} (is the launcher still running?)") from error
            raise

    def _exchange(self, payload: bytes, deadline: float | None) -> tuple[ReplyStatus, bytes]:
        frame = protocol.FRAME_HEADER.pack(self._sent, len(payload)) + payload
        _send(self._sock, frame, deadline)
        self._sent = protocol.next_sequence(self._sent)
        header = _receive(self._sock, protocol.FRAME_HEADER.size, deadline)
        length = protocol.parse_frame_header(header, self._received)
        self._received = protocol.next_sequence(self._received)
        reply = _receive(self._sock, length, deadline)
        if not reply or reply[0] not in set(ReplyStatus):
            raise protocol.ProtocolError("the reply has no known status")
        return ReplyStatus(reply[0]), reply[1:]


def _name(host: str) -> Any:
    """For a text, Python imports the codec for names beyond ASCII and its tables, a millisecond."""
    return host.encode() if host.isascii() else host


def shake_hands(sock: socket.socket, secret: bytes, purpose: int, deadline: float) -> None:
    """The client's side of the handshake. Raises OSError."""
    nonce = os.urandom(protocol.NONCE_BYTES)
    _send(sock, protocol.hello(nonce, purpose), deadline)
    answer = _receive(sock, protocol.ANSWER_BYTES, deadline)
    _send(sock, protocol.answer_server(secret, nonce, answer, purpose), deadline)


def _send(sock: socket.socket, data: bytes, deadline: float | None) -> None:
    sock.settimeout(_left(deadline))
    sock.sendall(data)


def _receive(sock: socket.socket, size: int, deadline: float | None) -> bytes:
    data = bytearray()
    while len(data) < size:
        sock.settimeout(_left(deadline))
        piece = sock.recv(min(size - len(data), 1 << 20))
        if not piece:
            raise ConnectionError("it closed the connection")
        data += piece
    return bytes(data)


def _millis(timeout: float | None) -> int:
    if timeout is None:
        return protocol.WAIT_FOREVER
    return min(max(0, round(timeout * 1000)), protocol.WAIT_FOREVER - 1)


def _left(deadline: float | None) -> float | None:
    if deadline is None:
        return None
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError("no answer in time")
    return left
