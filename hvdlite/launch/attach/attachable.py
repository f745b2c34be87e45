"""What a launcher answers to `hvdlite top`.

While something is attached, the ranks report (`wanted`). Else they sleep, and so does this.
"""

from __future__ import annotations

import dataclasses
import os
import shlex
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from hvdlite.base.mailbox import Mailbox
from hvdlite.launch.attach import directory
from hvdlite.launch.attach.server import Client, Server
from hvdlite.launch.attach.wanted import Wanted
from hvdlite.launch.monitor.board import Board, report_key
from hvdlite.launch.watch import JobObserver, Situation
from hvdlite.rendezvous.server import StoreServer

_SECONDS = 1.0
_SHARE_OF_A_CORE = 0.01
# Nothing tells whether a rank has not come to init() yet or has called shutdown() already.
_ABSENT = "not between init() and shutdown()"


class Attachable(JobObserver):
    """`hosts`: the host of each rank, if the job is not elastic. `dumps`: the folder of its
    bundles; empty: ranks print their stacks. `log`: for --verbose."""

    def __init__(
        self,
        command: Sequence[str],
        hosts: Mapping[int, str],
        dumps: str,
        log: Callable[[str], None],
    ) -> None:
        self._command, self._hosts, self._dumps, self._log = command, hosts, dumps, log
        self._began = time.time()
        self._server: Server | None = None
        self._store: StoreServer | None = None
        self._guests: Mailbox[socket.socket] | None = None
        self._wanted: Wanted | None = None
        self._situation: Callable[[], Situation] | None = None
        self._board: Board | None = None  # while something is attached
        self._due = 0.0
        #: request -> what answers it; another feature adds its own
        self.requests: dict[str, Callable[[Client], None]] = {
            "job": self._describe,
            "ranks": self._attach,
            "dump": self._dump,
        }

    def begin(self, store: StoreServer, secret: bytes) -> None:
        self._store = store
        self._wanted = Wanted(store, _SECONDS)
        self._server = Server(self._asked)
        self._guests = store.guests()
        try:
            self._server.listen(*directory.listen(os.environ))
        except OSError as error:
            self._log(f"`hvdlite top` cannot find this job on this host: {error.strerror or error}")

    def ask(self, situation: Callable[[], Situation]) -> None:
        self._situation = situation

    def calls(self) -> Mapping[int, Callable[[], None]]:
        if self._server is None or self._guests is None:
            return {}
        return {self._server.fileno(): self._server.serve, self._guests.fileno(): self._admit}

    def tick(self) -> float | None:
        if self._wanted is None:
            return None
        pauses = (self._wanted.tick(), self._show())
        return min((pause for pause in pauses if pause is not None), default=None)

    def _show(self) -> float | None:
        if self._board is None or self._server is None:
            return None
        now = time.monotonic()
        if now >= self._due:
            watchers = self._server.watchers
            if not watchers:
                self._detach()
                return None
            before = time.thread_time()
            shown = self._read(self._board, now)
            for client in watchers:
                self._server.send(client, shown)
            spent = (time.thread_time() - before) / _SHARE_OF_A_CORE
            self._due = now + max(_SECONDS, spent)
        return max(0.0, self._due - now)

    def end(self) -> None:
        if self._server is not None:
            for client in self._server.watchers:
                self._server.send(client, {"ended": True})
        self.close()

    def close(self) -> None:
        if self._server is not None:
            self._server.close()
        self._server = None

    def _admit(self) -> None:
        """From other hosts."""
        assert self._server is not None and self._guests is not None
        for sock in self._guests.take():
            self._server.admit(sock)

    def _asked(self, client: Client, what: str) -> None:
        assert self._server is not None
        if what in self.requests:
            self.requests[what](client)
        else:
            self._server.send(client, {"error": f"this hvdliterun does not know {what!r}"})

    def _describe(self, client: Client) -> None:
        assert self._server is not None
        present = self._present()
        hosts = present.names or set(present.hosts.values())
        about = {
            "pid": os.getpid(),
            "launcher": socket.gethostname(),
            "command": shlex.join(self._command),
            "began": self._began,
            "ranks": len(present.hosts),
            "hosts": sorted(hosts),
        }
        self._server.send(client, about)

    def _attach(self, client: Client) -> None:
        assert self._wanted is not None
        client.watches = True
        if self._board is None:
            self._board = Board({}, _ABSENT)
            self._wanted.reports(True)
            # By then the ranks have reported twice, unless they are busy.
            self._due = time.monotonic() + 1.1 * _SECONDS

    def _detach(self) -> None:
        assert self._store is not None and self._board is not None and self._wanted is not None
        self._wanted.reports(False)
        for rank in self._board.ranks:
            self._store.delete(report_key(rank))
        self._board = None

    def _dump(self, client: Client) -> None:
        assert self._server is not None and self._wanted is not None
        self._wanted.dump()
        self._server.send(client, {"asked": len(self._present().hosts), "dumps": self._dumps})

    def _present(self) -> Situation:
        return Situation(self._hosts, "") if self._situation is None else self._situation()

    def _read(self, board: Board, now: float) -> Mapping[str, Any]:
        assert self._store is not None
        present = self._present()
        board.become(present.hosts, present.line)
        for rank in board.ranks:
            raw = self._store.peek(report_key(rank))
            if raw is not None:
                board.take(rank, raw, now)
        return {
            "heading": board.heading,
            "world_changes": present.changes,
            "taken": [each.sentence for each in board.taken(now)],
            "complete": board.heard_all,
            "rows": [dataclasses.asdict(row) for row in board.rows(now)],
        }
