"""`hvdliterun --metrics-port` and `--metrics-file`: the ranks' numbers for other programs.

Neither ever ends a job: what cannot be opened or written is told in one line, once.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
from collections import deque
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

from hvdlite.launch.monitor import Outlets, exposition
from hvdlite.launch.monitor.board import Board
from hvdlite.launch.monitor.view import Display
from hvdlite.rendezvous.addresses import join_address

_SECONDS_OF_A_REQUEST = 5.0
MOST_READERS = 16
_SECONDS_OF_A_LINE = 10.0


class MetricsPage(Display):
    """A display that Prometheus reads: GET /metrics."""

    def __init__(self, board: Board, outlets: Outlets, say: Callable[[str], None]) -> None:
        self._board = board
        self._text = b""
        self._server: _MetricsServer | None = None
        try:
            self._server = _MetricsServer((outlets.address, outlets.port or 0), self._handler())
        except OSError as error:
            address = join_address(outlets.address, outlets.port or 0)
            say(f"there is no page of metrics: cannot listen on {address}: {error.strerror}.")
            return
        place = join_address(outlets.address, self._server.server_port)
        say(f"metrics are at http://{place}/metrics")
        serve, name = self._server.serve_forever, "hvdlite-metrics"
        threading.Thread(target=serve, args=(0.5,), name=name, daemon=True).start()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        page = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:  # noqa: N802
                if self.path.split("?")[0] != "/metrics":
                    self.send_error(404, "the page is /metrics")
                    return
                text = page._text  # another thread draws
                self.send_response(200)
                self.send_header("Content-Type", exposition.CONTENT_TYPE)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            def log_message(self, *_: Any) -> None:
                pass

        return Handler

    def draw(self, now: float) -> None:
        if self._server is not None:
            self._text = exposition.page(self._board, now).encode()

    def end(self) -> None:
        if self._server is not None:
            self._server.end()
            self._server = None


class _MetricsReader:
    """A connection that a thread serves. Another thread may cut it."""

    def __init__(self, sock: socket.socket) -> None:
        self.deadline = time.monotonic() + _SECONDS_OF_A_REQUEST
        self.thread: threading.Thread | None = None
        self._sock = sock
        self._closing = threading.Lock()  # the descriptor is not of another file meanwhile

    def cut(self) -> None:
        """The thread waits for this reader no longer."""
        with self._closing, contextlib.suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        with self._closing:
            self._sock.close()


class _MetricsServer(HTTPServer):
    """Serves each reader in a thread of its own, the last MOST_READERS at a time. Waits for no
    reader."""

    allow_reuse_address = True

    def __init__(self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler]) -> None:
        self.address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        self._readers: deque[_MetricsReader] = deque()  # the oldest first
        super().__init__(address, handler)

    def server_bind(self) -> None:
        # HTTPServer would look the host's name up, which may take long.
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = "", int(self.socket.getsockname()[1])

    def process_request(self, request: Any, client_address: Any) -> None:
        if len(self._readers) >= MOST_READERS:
            self._forget(self._readers.popleft())
        reader = _MetricsReader(request)
        reader.thread = threading.Thread(
            target=self._serve,
            args=(reader, request, client_address),
            name="hvdlite-metrics-reader",
            daemon=True,
        )
        try:
            reader.thread.start()
        except RuntimeError:  # no thread is left
            reader.close()
            return
        self._readers.append(reader)

    def _serve(self, reader: _MetricsReader, request: Any, client_address: Any) -> None:
        with contextlib.suppress(Exception):  # a reader that has gone is no news
            self.finish_request(request, client_address)
        reader.cut()  # it sees the end even if it still sends
        reader.close()

    def service_actions(self) -> None:
        """Called twice a second."""
        now = time.monotonic()
        while self._readers and self._readers[0].deadline <= now:
            self._forget(self._readers.popleft())

    @staticmethod
    def _forget(reader: _MetricsReader) -> None:
        reader.cut()
        assert reader.thread is not None
        reader.thread.join()  # it waits for nothing now

    def handle_error(self, *_: Any) -> None:
        pass  # a reader that has gone is no news

    def end(self) -> None:
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)  # wakes the thread that accepts
        self.shutdown()
        self.server_close()
        for reader in self._readers:
            reader.cut()


class MetricsFile(Display):
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

    def end(self) -> None:
        self.draw(time.monotonic())
        self._close()

    def _close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
        self._descriptor = -1
