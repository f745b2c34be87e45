"""One client of the store server: its input, its output and the state of the protocol."""

from __future__ import annotations

import collections
import socket
from collections.abc import Callable

from hvdlite.rendezvous.table import Waiter

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
