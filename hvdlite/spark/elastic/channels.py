"""The channels of all tasks: where the driver finds its hosts, and where it starts members."""

from __future__ import annotations

import errno
import os
import socket
import threading
import time
from collections.abc import Mapping

from hvdlite.base.mailbox import Mailbox
from hvdlite.launch.elastic.discovery import Answer
from hvdlite.launch.elastic.host_discovery import HostDiscovery
from hvdlite.spark.elastic.census import Census
from hvdlite.spark.elastic.channel import Channel
from hvdlite.spark.elastic.member import Member


class Channels(HostDiscovery):
    """Looks once a second. `guests`: connections of tasks, as StoreServer.guests() returns them."""

    def __init__(
        self,
        guests: Mailbox[socket.socket],
        census: Census,
        grace_seconds: float,
        silence_seconds: float,
    ) -> None:
        self._guests, self._census = guests, census
        self._grace, self._silence = grace_seconds, silence_seconds
        self._all: list[Channel] = []
        self._failures: list[str] = []
        self._lock = threading.Lock()
        super().__init__(self._look)

    def failed(self, why: str) -> None:
        """A task has failed. Any thread."""
        with self._lock:
            self._failures.append(f"a task of Spark has failed: {why}")

    def start(self, number: int, own: Mapping[str, str]) -> Member:
        """Starts a member on its host. Raises OSError if no slot is free there any more."""
        host = own["HOROVOD_HOSTNAME"]
        with self._lock:
            for channel in self._all:
                if channel.is_free and channel.hello and self._census.name(channel.hello) == host:
                    return channel.start(number, own, self._grace)
        raise OSError(errno.EHOSTUNREACH, os.strerror(errno.EHOSTUNREACH))

    def hang_up(self) -> None:
        """Ends all tasks."""
        for channel in self._all:
            channel.hang_up()
        for channel in self._all:
            channel.close()

    def _look(self) -> Answer:
        with self._lock:
            self._all += [Channel(sock, self._silence) for sock in self._guests.take()]
            for channel in self._all:
                if channel.is_over and channel.hello:
                    self._failures.append(_loss(self._census.name(channel.hello), channel.problem))
            self._all = [channel for channel in self._all if not channel.is_over]
            there = [channel.hello for channel in self._all if channel.is_ready and channel.hello]
            failures, self._failures = self._failures, []
            return self._census.count(there, failures, time.monotonic())


def _loss(host: str, problem: str) -> str:
    return f"a task of Spark on {host} was lost{': ' if problem else ''}{problem}."
