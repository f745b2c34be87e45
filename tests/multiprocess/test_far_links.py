"""Between hosts whose packets take their time."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import network
import pytest
from bare_ranks import Ranks

_WHY_NOT = network.why_not()
pytestmark = pytest.mark.skipif(_WHY_NOT is not None, reason=_WHY_NOT or "")

# Of the connections with other ranks, after some collectives.
CONGESTION_CONTROL = """
import socket
STORE = os.environ["STORE"]
hvd.init()
for n in (1, 100_000):
    x = np.arange(n, dtype=np.float32) + RANK
    assert (hvd.allreduce(x, op=hvd.Sum) == 2 * np.arange(n, dtype=np.float32) + 1).all()
found = set()
for name in os.listdir("/proc/self/fd"):
    try:
        one = socket.socket(fileno=os.dup(int(name)))
    except OSError:
        continue
    with one:
        if one.family not in (socket.AF_INET, socket.AF_INET6) or one.type != socket.SOCK_STREAM:
            continue
        try:
            peer = one.getpeername()[0]
        except OSError:
            continue
        if peer == STORE: continue
        found.add(one.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16).strip(b"\\0"))
tell(found=sorted(each.decode() for each in found))
hvd.barrier()
"""


def of_system() -> str:
    with socket.socket() as fresh:
        return fresh.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16).strip(b"\0").decode()


def found(directory: Path, hosts: network.Network, **extra: str) -> list[list[str]]:
    with Ranks(directory, 2, ("a", "b"), hosts.store) as ranks:
        for rank in range(2):
            ranks.start(CONGESTION_CONTROL, ranks=[rank], prefix=hosts.prefix(rank),
                        STORE=hosts.address(-1), **extra)  # fmt: skip
        ranks.end_well()
        return [ranks.last(rank)["found"] for rank in range(2)]


@pytest.fixture
def hosts() -> Iterator[network.Network]:
    with network.Network(2) as two:
        yield two


def test_a_link_with_a_short_way_does_not_pace(tmp_path: Path, hosts: network.Network) -> None:
    expected = "reno" if of_system().startswith("bbr") else of_system()
    assert found(tmp_path, hosts) == [[expected]] * 2


def test_a_link_with_a_long_way_uses_the_congestion_control_of_the_system(
    tmp_path: Path, hosts: network.Network
) -> None:
    long_way = hosts.lengthen(1, 0.005)
    try:
        assert found(tmp_path, hosts) == [[of_system()]] * 2
    finally:
        long_way.close()


def test_the_user_may_insist_on_that_of_the_system(tmp_path: Path, hosts: network.Network) -> None:
    assert found(tmp_path, hosts, HVDLITE_TCP_CONGESTION="system") == [[of_system()]] * 2
