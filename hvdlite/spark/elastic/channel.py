"""The driver's end of the connection with one task, which has an agent with one slot."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import signal
import socket
import threading
from collections.abc import Mapping

from hvdlite.launch.spawn import agent_protocol, events
from hvdlite.launch.spawn.agent_protocol import Decoder, Frame, StartOne
from hvdlite.launch.spawn.events import AllGone, Event, RankEnded, RankGone
from hvdlite.launch.spawn.silent_hosts import socket_options
from hvdlite.spark.elastic.member import Member
from hvdlite.spark.elastic.station import Hello

_READ_BYTES = 1 << 18
_MOST_HELLO = 4096
_JOIN_SECONDS = 10.0
_STREAMS = {agent_protocol.STDOUT: "stdout", agent_protocol.STDERR: "stderr"}


class Channel:
    """A thread reads it until the task has ended."""

    def __init__(self, sock: socket.socket, silence_seconds: float) -> None:
        self.hello: Hello | None = None
        self.is_ready = False  # its agent waits for a member
        self.is_over = False
        self.problem = ""  # why its agent has ended
        self._sock = sock
        self._member: Member | None = None
        self._lock = threading.Lock()
        sock.setblocking(True)
        for level, option, value in socket_options(silence_seconds):
            sock.setsockopt(level, option, value)
        self._thread = threading.Thread(target=self._run, name="hvd-spark-task", daemon=True)
        self._thread.start()

    @property
    def is_free(self) -> bool:
        return self.is_ready and not self.is_over and self._member is None

    def start(self, number: int, own: Mapping[str, str], grace_seconds: float) -> Member:
        """Starts a member. Raises OSError if the task has ended."""
        with self._lock:
            if self.is_over:
                raise OSError(errno.EHOSTUNREACH, os.strerror(errno.EHOSTUNREACH))
            self._member = member = Member(number, self, grace_seconds)
        self.send(StartOne(number, own).encode())
        return member

    def send(self, data: bytes) -> None:
        with contextlib.suppress(OSError):  # it has ended; its thread tells
            self._sock.sendall(data)

    def hang_up(self) -> None:
        """Ends the task, with the rank beside it; returns at once."""
        with contextlib.suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Ends the task, and waits for the thread."""
        self.hang_up()
        self._thread.join(_JOIN_SECONDS)

    def _run(self) -> None:
        # TypeError and ValueError: the other side is another release of hvdlite.
        with contextlib.suppress(OSError, TypeError, ValueError):
            self._listen()
        self._sock.close()
        with self._lock:
            self.is_over, member, self._member = True, self._member, None
        if member is not None:
            member.gone(RankEnded(member.number, signal=signal.SIGKILL), AllGone())

    def _listen(self) -> None:
        data = b""
        while b"\n" not in data:
            more = self._sock.recv(_READ_BYTES)
            data += more
            if not more or len(data) > _MOST_HELLO:
                return
        line, _, data = data.partition(b"\n")
        self.hello = Hello(**json.loads(line))
        decoder = Decoder()
        while True:
            for frame in decoder.feed(data):
                self._understood(frame)
            data = self._sock.recv(_READ_BYTES)
            if not data:
                return

    def _understood(self, frame: Frame) -> None:
        if frame.kind == agent_protocol.READY:
            self.send(agent_protocol.START)
            self.is_ready = True
        elif frame.kind == agent_protocol.REFUSED:
            self.problem = frame.payload.decode(errors="backslashreplace")
        elif frame.kind == agent_protocol.EVENT:
            self._happened(events.parse(frame.payload.decode()))
        elif self._member is not None:
            self._member.printed(_STREAMS[frame.kind], frame.payload)

    def _happened(self, event: Event) -> None:
        member = self._member
        if member is None:
            return
        if isinstance(event, RankGone):
            with self._lock:
                self._member = None
            member.gone(AllGone(event.resisting))
        else:
            member.happened(event)
