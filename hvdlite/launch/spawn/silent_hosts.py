"""When a host counts as lost: how long two kernels, ssh and sshd, or the launcher wait for a sign
of life. Pure: times are arguments.

An outage that HVDLITE_HEARTBEAT_SECONDS allows to the ranks must not end the connections between
the launcher and its hosts either.
"""

from __future__ import annotations

import math
import socket
from collections.abc import Sequence

# How often the other side is asked for a sign of life while nothing else is sent.
PAUSE = 1
# Time for an answer on its way, or for the first question after the outage.
_MARGIN = 2


def socket_options(silence: float) -> Sequence[tuple[int, int, int]]:
    """Returns options for setsockopt(), for a connection that is idle most of the time; 0: it is
    kept for ever.

    TCP_USER_TIMEOUT is the limit. With it, the kernel counts the seconds since it last heard
    anything, and not the lost questions, none of which it repeats.
    """
    if silence <= 0:
        return []
    limit = math.ceil(1000 * (silence + _MARGIN))
    return [
        (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
        (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, PAUSE),
        (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, PAUSE),
        (socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, limit),
    ]


def most_unanswered(silence: float) -> int:
    """How many questions, one each PAUSE, may have no answer yet; 0: the other side is kept for
    ever. Questions and answers go over TCP, which may wait once more for as long as an outage took
    before it tries again."""
    return math.ceil((2 * silence + _MARGIN) / PAUSE) if silence > 0 else 0


def ssh_options(silence: float) -> Sequence[str]:
    """Returns options for ssh."""
    most = most_unanswered(silence)
    if not most:
        return ["ServerAliveInterval=0"]
    return [f"ServerAliveInterval={PAUSE}", f"ServerAliveCountMax={most}"]


# A host that still sends is not given up: if the reader of the job's output was slow, much may be
# on its way.
PATIENCE_SECONDS = 2.0


class Patience:
    """How long hvdliterun waits for a host that was asked to end its ranks."""

    def __init__(self) -> None:
        self._deadline: float | None = None
        self._heard = float("-inf")

    def asked(self, seconds: float, now: float) -> None:
        """The host was asked: its ranks should be gone in `seconds`. A second request does not
        extend the time."""
        until = now + seconds
        self._deadline = until if self._deadline is None else min(self._deadline, until)

    def heard(self, now: float) -> None:
        """The host has sent something, or it was not read until now."""
        self._heard = now

    def left(self, now: float) -> float | None:
        """Returns the seconds until it has to be given up: 0 means now, None that it was asked for
        nothing."""
        if self._deadline is None:
            return None
        return max(0.0, self._deadline - now, self._heard + PATIENCE_SECONDS - now)
