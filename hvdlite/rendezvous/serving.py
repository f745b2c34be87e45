"""The loop of the store server's thread: one selector, any number of clients.

A stranger costs at most one descriptor and 41 bytes for 5 seconds. Nothing is parsed before the
handshake is complete, and nothing from a socket is ever unpickled or evaluated. A connection that
violates the protocol is closed with one line in the log. For strangers, the log has the first few
lines and then their number. Other clients do not notice, unless the connection spoke for a joining
rank: that rank is then lost (`attempts`).
"""

from __future__ import annotations

import collections
import functools
import logging
import os
import selectors
import socket
import time
from collections.abc import Callable, Hashable

from hvdlite.base.mailbox import Mailbox
from hvdlite.rendezvous import addresses, protocol
from hvdlite.rendezvous.attempts import AttemptFailed, Attempts
from hvdlite.rendezvous.protocol import Operation, ReplyStatus, Request
from hvdlite.rendezvous.quota import Quota
from hvdlite.rendezvous.table import Table, Waiter

_READ_BYTES = 256 << 10


class Connection:
    """Holds the bytes to send and the bytes that are not read yet.

    It holds at most one request at a time. It takes the next one only when the last one is answered
    and the answer is sent. So a client that does not read cannot make the server store more and
    more.
    """

    def __init__(self, sock: socket.socket, who: str, deadline: float) -> None:
        self.sock = sock
        self.who = who
        self.deadline = deadline  # of the handshake
        self.stage: Callable[[bytes], None]  # what to do with the next `need` bytes
        self.need = 0
        self.buffer = bytearray()
        self.out: collections.deque[memoryview] = collections.deque()
        self.received = 0  # sequence number of the next frame, each way
        self.sent = 0
        self.asking = False  # a request is being answered
        self.waiter: Waiter | None = None
        self.events = 0
        self.closed = False

    def expect(self, need: int, stage: Callable[[bytes], None]) -> None:
        self.need = need
        self.stage = stage

    def read(self) -> None:
        data = self.sock.recv(min(self.need - len(self.buffer), _READ_BYTES))
        if not data:
            raise EOFError
        self.buffer += data

    def write(self) -> None:
        sent = self.sock.sendmsg(list(self.out)[:16])
        while sent:
            head = self.out[0]
            if sent < len(head):
                self.out[0] = head[sent:]
                return
            sent -= len(head)
            self.out.popleft()


_STORE, _WATCH = protocol.PURPOSE_STORE, protocol.PURPOSE_WATCH
_log = logging.getLogger("hvdlite.rendezvous.server")

# No job has so many ranks that connect within one turn of the loop. If more strangers are connected
# at once, the oldest is closed.
_MAX_STRANGERS = 1024
# Handshakes of existing connections take turns with new ones, so a rush of ranks is not taken for a
# flood.
_ACCEPTS_PER_TURN = 64
# How long to accept no connection if the process has no descriptors left.
_ACCEPT_PAUSE = 0.2


class Loop:
    """Belongs to the server's thread, except `orders` and what `table` says of other threads."""

    def __init__(
        self,
        secret: bytes,
        listener: socket.socket,
        wake: socket.socket,
        rank: int,
        heard: Callable[[str, bytes], None] | None,
        private: bool,
    ) -> None:
        # from other threads
        self.orders: collections.deque[Callable[[Loop], None]] = collections.deque()
        self._heard = heard
        self._secret = secret
        self._rank = rank
        self._private = private
        self._listener = listener
        self._wake = wake
        self.table = Table()
        self._attempts = Attempts()
        self._selector = selectors.DefaultSelector()
        self._connections: set[Connection] = set()
        # Connections without a complete handshake, the oldest first.
        self._strangers: collections.OrderedDict[Connection, None] = collections.OrderedDict()
        self._answered: list[Connection] = []
        self._accept_again: float | None = None
        self._lines = Quota()  # about strangers
        self._guests: Mailbox[socket.socket] | None = None

    def welcome(self, guests: Mailbox[socket.socket]) -> None:
        """Connections for watching the job go there from now on."""
        self._guests = guests

    def carry_out(self, request: Request) -> None:
        """A request of this process, which needs no reply."""
        self.table.submit(request, time.monotonic(), lambda payload: None)

    def call_off(self, rendezvous: str, verdict: bytes) -> None:
        self._tell(self._attempts.call_off(rendezvous, verdict), verdict)

    def run(self) -> None:
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._selector.register(self._wake, selectors.EVENT_READ)
        try:
            while self._turn():
                pass
        except Exception:
            _log.exception("the store server ends because of an internal error")
        finally:
            for connection in list(self._connections):
                self._close(connection)
            self._count_strangers(float("inf"))
            self._listener.close()
            self._selector.close()

    def abandon(self) -> None:
        for connection in list(self._connections):
            connection.sock.close()
        self._selector.close()

    def _turn(self) -> bool:
        for key, events in self._selector.select(self._patience()):
            if key.fileobj is self._wake:
                if b"x" in self._wake.recv(4096):
                    return False
                while self.orders:
                    self.orders.popleft()(self)
                continue
            if key.fileobj is self._listener:
                self._accept()
            elif not key.data.closed:
                self._serve(key.data, events)
        now = time.monotonic()
        self.table.expire(now)
        while self._answered:
            self._serve(self._answered.pop(), 0)
        self._show_out(now)
        self._count_strangers(now)
        if self._accept_again is not None and now >= self._accept_again:
            self._accept_again = None
            self._selector.register(self._listener, selectors.EVENT_READ)
        return True

    def _patience(self) -> float | None:
        times = [self.table.next_deadline(), self._accept_again, self._lines.due()]
        if self._strangers:
            times.append(next(iter(self._strangers)).deadline)
        due = [moment for moment in times if moment is not None]
        return max(0.0, min(due) - time.monotonic()) if due else None

    def _accept(self) -> None:
        for _ in range(_ACCEPTS_PER_TURN):
            try:
                sock, address = self._listener.accept()
            except (BlockingIOError, ConnectionAbortedError, InterruptedError):
                return
            except OSError as error:
                if self._lines.allows(time.monotonic()):
                    _log.warning(
                        "the store accepts no connection for %.1f s: %s", _ACCEPT_PAUSE, error
                    )
                self._selector.unregister(self._listener)
                self._accept_again = time.monotonic() + _ACCEPT_PAUSE
                return
            if self._private and addresses.is_public(address[0]):
                if self._lines.allows(time.monotonic()):
                    _log.warning(
                        "the store has refused a connection: %s is a public address, and the job "
                        "has no secret of its own. HVDLITE_SECRET_FILE gives it one, and "
                        "HVDLITE_ALLOW_OPEN_JOB=1 lets all in that reach this host.",
                        address[0].removeprefix("::ffff:"),
                    )
                sock.close()
                continue
            who = addresses.join_address(*address[:2])
            connection = Connection(sock, who, time.monotonic() + protocol.HANDSHAKE_SECONDS)
            connection.expect(protocol.HELLO_BYTES, functools.partial(self._on_hello, connection))
            self._connections.add(connection)
            self._strangers[connection] = None
            try:
                sock.setblocking(False)
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                # A client whose machine vanished sends nothing. Without this its descriptor would
                # stay open for ever.
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            except OSError as error:
                self._close(connection, str(error))
                continue
            if len(self._strangers) > _MAX_STRANGERS:
                why = f"more than {_MAX_STRANGERS} handshakes are under way"
                self._close(next(iter(self._strangers)), why)
            self._serve(connection, selectors.EVENT_READ)

    def _serve(self, connection: Connection, events: int) -> None:
        """Reads new bytes, answers complete requests, writes what fits, and says what to wait
        for."""
        if connection.closed:
            return
        try:
            if events & selectors.EVENT_READ and len(connection.buffer) < connection.need:
                try:
                    connection.read()
                except (BlockingIOError, InterruptedError):
                    pass
                if connection.need == protocol.HELLO_BYTES and connection in self._strangers:
                    protocol.check_magic(connection.buffer)
            while True:
                try:
                    while connection.out:
                        connection.write()
                except (BlockingIOError, InterruptedError):
                    break
                connection.asking = connection.waiter is not None
                if connection.asking or len(connection.buffer) < connection.need:
                    break
                data = bytes(connection.buffer)
                connection.buffer.clear()
                connection.stage(data)
                if connection.closed:  # handed over
                    return
            self._listen_to(connection)
        except EOFError:
            self._close(connection, self._why_gone(connection))
        except protocol.ProtocolError as error:
            self._close(connection, str(error))
        except ConnectionError as error:
            self._close(connection, None if connection not in self._strangers else str(error))
        except Exception as error:  # a bug of ours must not end the other clients
            self._close(connection, f"serving it failed: {error!r}")

    def _listen_to(self, connection: Connection) -> None:
        events = selectors.EVENT_READ if len(connection.buffer) < connection.need else 0
        events |= selectors.EVENT_WRITE if connection.out else 0
        if events == connection.events:
            return
        if connection.events == 0:
            self._selector.register(connection.sock, events, connection)
        elif events == 0:
            self._selector.unregister(connection.sock)
        else:
            self._selector.modify(connection.sock, events, connection)
        connection.events = events

    def _on_hello(self, connection: Connection, data: bytes) -> None:
        if protocol.purpose_of(data) == _WATCH and self._guests is None:
            self._close(connection)  # `hvdlite top` asks each store of its user
            return
        nonce = os.urandom(protocol.NONCE_BYTES)
        answer, proof = protocol.answer_hello(self._secret, data, nonce, (_STORE, _WATCH))
        connection.out.append(memoryview(answer))
        then = self._on_proof if protocol.purpose_of(data) == _STORE else self._on_guests_proof
        connection.expect(protocol.PROOF_BYTES, functools.partial(then, connection, proof))

    def _on_guests_proof(self, connection: Connection, expected: bytes, data: bytes) -> None:
        """Hands the connection over; the handshake's bytes have all been sent and read."""
        protocol.check_client(expected, data)
        assert self._guests is not None
        del self._strangers[connection]
        self._connections.discard(connection)
        if connection.events:
            self._selector.unregister(connection.sock)
        connection.closed = True
        self._guests.put(connection.sock)

    def _on_proof(self, connection: Connection, expected: bytes, data: bytes) -> None:
        protocol.check_client(expected, data)
        del self._strangers[connection]
        self._expect_header(connection)

    def _expect_header(self, connection: Connection) -> None:
        stage = functools.partial(self._on_header, connection)
        connection.expect(protocol.FRAME_HEADER.size, stage)

    def _on_header(self, connection: Connection, data: bytes) -> None:
        length = protocol.parse_frame_header(data, connection.received)
        connection.received = protocol.next_sequence(connection.received)
        if length == 0:
            raise protocol.ProtocolError("an empty frame came")
        connection.expect(length, functools.partial(self._on_request, connection))

    def _on_request(self, connection: Connection, data: bytes) -> None:
        self._expect_header(connection)
        try:
            request = protocol.decode_request(data)
            if request.operation in (Operation.JOIN, Operation.ARRIVE, Operation.FAIL):
                self._on_joining(connection, request)
            else:
                self._submit(connection, request)
        except protocol.BadRequest as error:
            self._answer(connection, ReplyStatus.BAD_REQUEST, str(error).encode())
        except AttemptFailed as error:
            self._answer(connection, ReplyStatus.LOST, error.verdict)

    def _submit(self, connection: Connection, request: Request) -> None:
        reply = functools.partial(self._reply, connection)
        connection.waiter = self.table.submit(request, time.monotonic(), reply)
        if request.operation is Operation.SET and self._heard is not None:
            self._heard(request.key, request.value)

    def _on_joining(self, connection: Connection, request: Request) -> None:
        if request.operation is Operation.JOIN:
            size = protocol.decode_count(request.value)
            number = self._attempts.join(request.key, request.argument, size, connection)
            joined = f"{request.key}/{number}/joined/{request.argument}"
            self.carry_out(Request(Operation.SET, joined))
            self._answer(connection, ReplyStatus.OK, protocol.encode_joined(number, self._rank))
        elif request.operation is Operation.ARRIVE:
            attempt, rank = self._attempts.arrive(connection)
            arrived = f"{attempt.key}arrived"
            self.carry_out(Request(Operation.SET, f"{arrived}/{rank}"))
            members = protocol.encode_count(attempt.size)
            self._submit(connection, Request(Operation.COLLECT, arrived, request.argument, members))
        else:
            verdict = protocol.check_verdict(request.value)
            others = self._attempts.fail(connection, verdict)
            self._answer(connection, ReplyStatus.OK)
            self._tell(others, verdict)

    def _tell(self, others: list[Hashable], verdict: bytes) -> None:
        """Sends the verdict: it answers the request that they wait in, or their next one."""
        for other in others:
            assert isinstance(other, Connection)
            if other.waiter is not None:
                self.table.cancel(other.waiter)
            self._answer(other, ReplyStatus.LOST, verdict)

    def _answer(self, connection: Connection, status: ReplyStatus, value: bytes = b"") -> None:
        self._reply(connection, protocol.encode_reply(status, value))

    def _reply(self, connection: Connection, payload: bytes) -> None:
        header = protocol.FRAME_HEADER.pack(connection.sent, len(payload))
        connection.sent = protocol.next_sequence(connection.sent)
        connection.out.append(memoryview(header))
        connection.out.append(memoryview(payload))
        connection.waiter = None
        self._answered.append(connection)

    def _show_out(self, now: float) -> None:
        while self._strangers:
            oldest = next(iter(self._strangers))
            if oldest.deadline > now:
                return
            self._close(
                oldest, f"it did not finish the handshake within {protocol.HANDSHAKE_SECONDS:g} s"
            )

    def _why_gone(self, connection: Connection) -> str | None:
        if connection in self._strangers:
            return (
                "it left during the handshake (it may belong to another job, with another secret)"
            )
        return "it left in the middle of a request" if connection.buffer else None

    def _count_strangers(self, now: float) -> None:
        count = self._lines.take(now)
        if count:
            _log.warning(
                "the store has closed %d more connections of strangers: none knew the job's secret",
                count,
            )

    def _close(self, connection: Connection, why: str | None = None) -> None:
        if why is not None and (
            connection not in self._strangers or self._lines.allows(time.monotonic())
        ):
            _log.warning("the store closes the connection with %s: %s", connection.who, why)
        connection.closed = True
        if connection.waiter is not None:
            self.table.cancel(connection.waiter)
        if connection.events:
            self._selector.unregister(connection.sock)
        connection.sock.close()
        self._connections.discard(connection)
        self._strangers.pop(connection, None)
        will = self._attempts.gone(connection)
        if will is not None:
            verdict, others = will
            self._tell(others, verdict)
