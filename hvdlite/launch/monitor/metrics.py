"""`hvdliterun --metrics-port` and `--metrics-file`: the ranks' numbers for other programs.

Neither ever ends a job: what cannot be opened or written is told in one line, once.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

from hvdlite.launch.monitor import exposition
from hvdlite.launch.monitor.board import Board
from hvdlite.launch.monitor.outlets import Outlets
from hvdlite.rendezvous.addresses import join_address

_SECONDS_OF_A_REQUEST = 5.0
_SECONDS_OF_A_LINE = 10.0


class Page:
    """A display that Prometheus reads: GET /metrics."""

    seconds = 1.0

    def __init__(self, board: Board, outlets: Outlets, say: Callable[[str], None]) -> None:
        self._board = board
        self._text = b""
        self._server: HTTPServer | None = None
        try:
            self._server = _Server((outlets.address, outlets.port or 0), self._handler())
        except OSError as error:
            address = join_address(outlets.address, outlets.port or 0)
            say(f"there is no page of metrics: cannot listen on {address}: {error.strerror}.")
            return
        place = join_address(outlets.address, self._server.server_port)
        say(f"metrics are at http://{place}/metrics")
        threading.Thread(
            target=self._server.serve_forever, args=(0.5,), name="hvdlite-metrics", daemon=True
        ).start()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        page = self

        class Handler(BaseHTTPRequestHandler):
            timeout = _SECONDS_OF_A_REQUEST  # one request is served at a time

            def do_GET(self) -> None:  # noqa: N802
                if self.path.split("?")[0] != "/metrics":
                    self.send_error(404, "the page is /metrics")
                    return
                self.send_response(200)
                self.send_header("Content-Type", exposition.CONTENT_TYPE)
                self.send_header("Content-Length", str(len(page._text)))
                self.end_headers()
                self.wfile.write(page._text)

            def log_message(self, *_: Any) -> None:
                pass

        return Handler

    def draw(self, now: float) -> None:
        if self._server is not None:
            self._text = exposition.page(self._board, now).encode()

    def tick(self) -> float | None:
        return None

    def end(self) -> None:
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None


class _Server(HTTPServer):
    allow_reuse_address = True

    def __init__(self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler]) -> None:
        self.address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        super().__init__(address, handler)

    def server_bind(self) -> None:
        # HTTPServer would look the host's name up, which may take long.
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = "", int(self.socket.getsockname()[1])

    def handle_error(self, *_: Any) -> None:
        pass  # a reader that has gone is no news


class File:
    """A display that adds a line of JSON to a file now and then, and one at the end."""

    seconds = _SECONDS_OF_A_LINE

    def __init__(self, board: Board, path: str, say: Callable[[str], None]) -> None:
        self._board, self._path, self._say = board, path, say
        self._descriptor = -1
        self._began = time.time()
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
            self._descriptor = os.open(path, flags, 0o600)
        except OSError as error:
            say(f"there is no file of metrics: cannot open {path}: {error.strerror}.")

    def draw(self, now: float) -> None:
        if self._descriptor < 0:
            return
        text = exposition.line(self._board, now, time.time(), self._began) + "\n"
        try:
            if os.write(self._descriptor, text.encode()) == len(text.encode()):
                return
            why = "the file system is full"
        except OSError as error:
            why = error.strerror or str(error)
        self._say(f"the rest of the metrics is lost: cannot write to {self._path}: {why}.")
        self._close()

    def tick(self) -> float | None:
        return None

    def end(self) -> None:
        self.draw(time.monotonic())
        self._close()

    def _close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
        self._descriptor = -1
