"""For how long the launcher and its hosts wait for each other: longer than any outage that the
ranks are forgiven."""

from __future__ import annotations

import math
import socket

import pytest

from hvdlite.launch.spawn.silent_hosts import socket_options, ssh_options

LIMITS = [0.2, 1, 2, 3, 7.5, 10, 60, 600]


def _longest_pause_of_tcp(outage: float) -> float:
    """From its begin until the first attempt after it: each pause is twice the one before."""
    at, pause = 0.0, 0.25
    while at < outage:
        at, pause = at + pause, 2 * pause
    return at


@pytest.mark.parametrize("limit", LIMITS)
def test_a_connection_outlives_every_shorter_outage_and_no_much_longer_one(limit: float) -> None:
    options = {(level, option): value for level, option, value in socket_options(limit)}
    assert options[socket.SOL_SOCKET, socket.SO_KEEPALIVE] == 1
    idle = options[socket.IPPROTO_TCP, socket.TCP_KEEPIDLE]
    pause = options[socket.IPPROTO_TCP, socket.TCP_KEEPINTVL]
    kept = options[socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT] / 1000
    # What was heard last may have come so long before the outage, and the first answer comes so
    # long after it.
    assert kept >= limit + max(idle, pause)
    assert kept <= limit + 3
    # The kernel counts lost questions only where TCP_USER_TIMEOUT does not say otherwise.
    assert (socket.IPPROTO_TCP, socket.TCP_KEEPCNT) not in options


@pytest.mark.parametrize("limit", LIMITS)
def test_ssh_outlives_every_shorter_outage_and_no_much_longer_one(limit: float) -> None:
    options = dict(option.split("=") for option in ssh_options(limit))
    pause, most = int(options["ServerAliveInterval"]), int(options["ServerAliveCountMax"])
    for tenths in range(1, 11):
        assert pause * most > _longest_pause_of_tcp(limit * tenths / 10)
    assert pause * most <= math.ceil(2 * limit) + 2


def test_without_a_limit_nobody_is_given_up() -> None:
    assert socket_options(0) == []
    assert ssh_options(0) == ["ServerAliveInterval=0"]


def test_the_kernel_takes_the_options() -> None:
    with socket.socket() as made:
        for level, option, value in socket_options(10):
            made.setsockopt(level, option, value)
            assert made.getsockopt(level, option) == value
