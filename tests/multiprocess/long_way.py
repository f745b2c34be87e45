"""A cable whose packets take their time: two virtual interfaces, and a thread that carries packets
from one to the other. (The kernel's own delay, netem, is missing on many machines.)"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import select
import struct
import threading
import time
from collections import deque
from collections.abc import Iterator

_CLONE_NEWNET = 0x40000000
_TUNSETIFF = 0x400454CA
_TAP_WITHOUT_HEADER = 0x1002
_LARGEST = 1 << 17


@contextlib.contextmanager
def inside(namespace: str) -> Iterator[None]:
    """This thread is in the network namespace."""
    libc = ctypes.CDLL(None, use_errno=True)
    home = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
    away = os.open(f"/run/netns/{namespace}", os.O_RDONLY)
    try:
        if libc.setns(away, _CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), f"cannot enter {namespace}")
        try:
            yield
        finally:
            libc.setns(home, _CLONE_NEWNET)
    finally:
        os.close(home)
        os.close(away)


def interface_in(namespace: str, name: str) -> int:
    """Makes an Ethernet interface there. Its packets are read from, and written to, the descriptor
    that is returned; it is there as long as that is open."""
    with inside(namespace):
        tap = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
        fcntl.ioctl(tap, _TUNSETIFF, struct.pack("16sH22x", name.encode(), _TAP_WITHOUT_HEADER))
    return tap


class LongWay:
    """Between two interfaces; each packet takes so many seconds. Close it."""

    def __init__(self, one: int, other: int, seconds: float) -> None:
        self._ends = (one, other)
        self._seconds = seconds
        self._stop, self._stopped = os.pipe()
        self._thread = threading.Thread(target=self._carry, daemon=True)
        self._thread.start()

    def close(self) -> None:
        os.close(self._stopped)
        self._thread.join()
        for descriptor in (*self._ends, self._stop):
            os.close(descriptor)

    def _carry(self) -> None:
        under_way: deque[tuple[float, int, bytes]] = deque()  # in the order of arrival
        while True:
            left = under_way[0][0] - time.monotonic() if under_way else None
            ready, _, _ = select.select(
                [*self._ends, self._stop], [], [], None if left is None else max(left, 0)
            )
            if self._stop in ready:
                return
            now = time.monotonic()
            for end, far in (self._ends, self._ends[::-1]):
                if end in ready:
                    under_way.append((now + self._seconds, far, os.read(end, _LARGEST)))
            while under_way and under_way[0][0] <= now:
                _, far, packet = under_way.popleft()
                try:
                    os.write(far, packet)
                except OSError:  # a packet is lost: the interface is down or full
                    continue
