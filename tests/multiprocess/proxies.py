"""What stands between the ranks of pretended hosts and changes a bit of what it carries, with a
good checksum of TCP."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from dataclasses import dataclass

import pytest

from hvdlite.rendezvous.table import Table

# bytes before the first frame (docs/how-it-works/wire.md)
_PREFACE = {"dialer": 45 + 32 + 24, "listener": 76 + 8}
_GROUP_AT = 45 + 32 + 4
_HEADER = struct.Struct("<IIII")


@dataclass(frozen=True)
class Damage:
    """In the first frame that is long enough, once it is armed."""

    links: str  # tensors | negotiation
    byte: int  # of the frame, its header included
    bit: int = 0
    end: str = "dialer"  # whose words: the higher rank's, or the listener's


class Proxies:
    """One before the door of each rank. Use as a context manager."""

    def __init__(self, damage: Damage, monkeypatch: pytest.MonkeyPatch) -> None:
        self.done = threading.Event()
        self._damage = damage
        self._armed = threading.Event()
        self._lock = threading.Lock()
        self._sockets: list[socket.socket] = []
        put = Table._put

        def through_a_proxy(table: Table, key: str, value: bytes) -> None:
            put(table, key, self._before(value) if "/door/" in key else value)

        monkeypatch.setattr(Table, "_put", through_a_proxy)

    def arm(self) -> None:
        self._armed.set()

    def __enter__(self) -> Proxies:
        return self

    def __exit__(self, *_: object) -> None:
        for each in self._sockets:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def _before(self, door: bytes) -> bytes:
        host, port = door.decode().rsplit(":", 1)
        listener = socket.create_server(("127.0.0.1", 0))
        self._sockets.append(listener)
        threading.Thread(
            target=self._serve, args=(listener, (host, int(port))), daemon=True
        ).start()
        return f"127.0.0.1:{listener.getsockname()[1]}".encode()

    def _serve(self, listener: socket.socket, target: tuple[str, int]) -> None:
        with contextlib.suppress(OSError):  # closed
            while True:
                dialer, _ = listener.accept()
                answerer = socket.create_connection(target)
                self._sockets += [dialer, answerer]
                kind: list[str] = []  # known once the dialer has said it
                for end, source, sink in (
                    ("dialer", dialer, answerer),
                    ("listener", answerer, dialer),
                ):
                    threading.Thread(
                        target=self._carry, args=(end, kind, source, sink), daemon=True
                    ).start()

    def _carry(self, end: str, kind: list[str], source: socket.socket, sink: socket.socket) -> None:
        """Its words as they come, but for one bit of one frame."""
        words = bytearray()  # from the begin of the frame that is under way, or of the connection
        header = _PREFACE[end]
        begun = False  # frames have
        sent = 0
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                words += data
                while len(words) >= (needed := header if not begun else self._frame_bytes(words)):
                    if not begun and end == "dialer":
                        group = struct.unpack_from("<I", words, _GROUP_AT)[0]
                        kind.append("negotiation" if group % 2 else "tensors")
                    if begun:
                        self._maybe_change(end, kind[0], words, needed, sent)
                    sink.sendall(words[sent:needed])
                    del words[:needed]
                    sent, begun = 0, True
                if not begun:
                    sink.sendall(words[sent:])
                    sent = len(words)
        for each in (source, sink):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    @staticmethod
    def _frame_bytes(words: bytearray) -> int:
        """Of the frame that begins here, or a number that is not reached yet."""
        if len(words) < _HEADER.size:
            return _HEADER.size
        return _HEADER.size + int(_HEADER.unpack_from(words)[0])

    def _maybe_change(self, end: str, kind: str, words: bytearray, length: int, sent: int) -> None:
        damage = self._damage
        with self._lock:
            fits = (end, kind) == (damage.end, damage.links) and sent <= damage.byte < length
            if fits and self._armed.is_set() and not self.done.is_set():
                words[damage.byte] ^= 1 << damage.bit
                self.done.set()


__all__ = ["Damage", "Proxies"]
