"""What Horovod's programs hear of hosts: listeners, and the kinds of changes."""

from __future__ import annotations

import threading
import time
from enum import IntFlag
from typing import Any


class HostUpdateResult(IntFlag):
    """How the hosts have changed."""

    no_update = 0
    removed = 1
    added = 2
    mixed = 3


class Repeated(int):
    """The time of a message that repeats what the reader of notices knows already."""


class NotificationManager:
    """Tells listeners, such as a state, that hosts came or went.

    A listener has a method `on_hosts_updated(timestamp, update_res)`. While `run` runs, its state
    is one. Only hvdliterun's notices about an elastic job are told.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._listeners: list[Any] = []

    def init(self) -> None:
        """For Horovod's sake; there is nothing to start."""

    def register_listener(self, listener: Any) -> None:
        with self._lock:
            self._listeners.append(listener)

    def remove_listener(self, listener: Any) -> None:
        """Does nothing if it is none."""
        with self._lock:
            self._listeners = [each for each in self._listeners if each is not listener]

    def tell(self, removed: bool, added: bool) -> None:
        """Called by the thread that reads notices."""
        result = HostUpdateResult.no_update
        if removed:
            result |= HostUpdateResult.removed
        if added:
            result |= HostUpdateResult.added
        with self._lock:
            listeners = list(self._listeners)
        for listener in listeners:
            if hasattr(listener, "on_hosts_updated"):
                listener.on_hosts_updated(Repeated(time.time()), result)


notification_manager = NotificationManager()
