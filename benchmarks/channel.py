"""JSON, a line each way, over a Unix socket: how the coordinator and a rank talk. Whoever waits
here sleeps."""

from __future__ import annotations

import json
import socket
from typing import Any

Message = dict[str, Any]


class Channel:
    def __init__(self, connected: socket.socket) -> None:
        self._socket = connected
        self._lines = connected.makefile("rb")

    def send(self, message: Message) -> None:
        self._socket.sendall(json.dumps(message).encode() + b"\n")

    def receive(self) -> Message:
        line = self._lines.readline()
        if not line:
            raise EOFError("the other side is gone")
        message: Message = json.loads(line)
        return message


def connect(path: str) -> Channel:
    connected = socket.socket(socket.AF_UNIX)
    connected.connect(path)
    return Channel(connected)
