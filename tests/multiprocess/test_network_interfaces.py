"""Hosts that are joined by two cables, and jobs that use both."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import network
import pytest
from bare_ranks import Ranks

_WHY_NOT = network.why_not()
pytestmark = pytest.mark.skipif(_WHY_NOT is not None, reason=_WHY_NOT or "")

HOSTS = ("a", "a", "b", "b")
BOTH = "eth0,eth1"

# Between two ranks, each sends and receives every byte of an allreduce once.
COUNTED = """
hvd.init()
total = 0
for n in (1, 1000, 300_001, 2_000_000):
    x = np.arange(n, dtype=np.float32) + RANK
    for _ in range(3):
        assert (hvd.allreduce(x, op=hvd.Sum) == 2 * np.arange(n, dtype=np.float32) + 1).all()
        total += x.nbytes
tell(interfaces=hvd.metrics().get("interfaces"), total=total)
"""
EVERY_COLLECTIVE = f"""
hvd.init()
{network.COLLECTIVES}
tell(interfaces=hvd.metrics()["interfaces"])
"""
# How many TCP connections this process has with other ranks.
CONNECTIONS = """
hvd.init()
mine = {os.readlink(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd")
        if os.path.exists(f"/proc/self/fd/{fd}")}
rows = [line.split() for name in ("tcp", "tcp6") for line in open(f"/proc/self/net/{name}")][1:]
sockets = [row[3] for row in rows if len(row) > 9 and f"socket:[{row[9]}]" in mine]
tell(established=sockets.count("01"), listening=sockets.count("0A"))
hvd.barrier()
"""


@pytest.fixture(params=[4, 6], ids=["IPv4", "IPv6"])
def hosts(request: pytest.FixtureRequest) -> Iterator[network.Network]:
    with network.Network(2, request.param) as two:
        two.lay_second_cables()
        yield two


def start(ranks: Ranks, hosts: network.Network, program: str, **extra: str) -> None:
    for host, name in enumerate("ab"):
        members = [rank for rank in range(ranks.size) if ranks.hosts[rank] == name]
        ranks.start(program, ranks=members, prefix=hosts.prefix(host), **extra)


def run(
    directory: Path,
    hosts: network.Network,
    program: str,
    names: tuple[str, str] = (BOTH, BOTH),
    places: tuple[str, ...] = ("a", "b"),
    **extra: str,
) -> list[dict]:
    """`names`: of the interfaces that each host uses. Returns what each rank has told last."""
    directory.mkdir(exist_ok=True)
    with Ranks(directory, len(places), places, hosts.store) as ranks:
        for host, name in enumerate("ab"):
            members = [rank for rank in range(ranks.size) if places[rank] == name]
            ranks.start(program, ranks=members, prefix=hosts.prefix(host),
                        HVDLITE_NETWORK_INTERFACES=names[host], **extra)  # fmt: skip
        ranks.end_well()
        return [ranks.last(rank) for rank in range(ranks.size)]


@pytest.mark.parametrize("checks", ["auto", "off"])
def test_both_interfaces_carry_and_their_bytes_add_up(
    tmp_path: Path, hosts: network.Network, checks: str
) -> None:
    for told in run(tmp_path, hosts, COUNTED, HVDLITE_LINK_CHECKS=checks):
        for way in ("sent", "received"):
            carried = [told["interfaces"][name][way] for name in ("eth0", "eth1")]
            assert sum(carried) == told["total"], told
            assert min(carried) > 0, told


def test_every_collective_and_process_sets_use_both(tmp_path: Path, hosts: network.Network) -> None:
    for told in run(tmp_path, hosts, EVERY_COLLECTIVE, places=HOSTS):
        assert set(told["interfaces"]) == {"eth0", "eth1"}, told


def test_one_interface_is_used_as_before_without_another_connection(
    tmp_path: Path, hosts: network.Network
) -> None:
    plain, named, one_sided, both = (
        run(tmp_path / name, hosts, CONNECTIONS, names)
        for name, names in (
            ("plain", ("", "")),
            ("named", ("eth0", "eth0")),
            ("one_sided", (BOTH, "eth0")),
            ("both", (BOTH, BOTH)),
        )
    )
    for rank in range(2):
        for told in (plain, named, one_sided):
            assert told[rank]["established"] == plain[rank]["established"]
        assert named[rank]["listening"] == plain[rank]["listening"]
        assert both[rank]["established"] == plain[rank]["established"] + 1


def test_interfaces_of_one_subnet_each_use_their_own_cable(tmp_path: Path) -> None:
    with network.Network(2) as hosts:
        hosts.lay_second_cables(one_subnet=True)
        before = [hosts.carried(0, name) for name in ("eth0", "eth1")]
        told = run(tmp_path, hosts, COUNTED)[0]["interfaces"]
        for name, bytes_before in zip(("eth0", "eth1"), before, strict=True):
            sent, received = hosts.carried(0, name)
            assert told[name]["sent"] > 0
            assert sent - bytes_before[0] >= told[name]["sent"], name
            assert received - bytes_before[1] >= told[name]["received"], name


@pytest.mark.parametrize("cable", ["port", "second"])
def test_a_cable_that_is_pulled_ends_the_job_with_its_connection(
    tmp_path: Path, hosts: network.Network, cable: str
) -> None:
    with Ranks(tmp_path, 2, ("a", "b"), hosts.store) as ranks:
        start(
            ranks,
            hosts,
            "hvd.init(); hvd.barrier(); flag(f'up.{RANK}')\nuntil_it_fails(lambda: "
            "hvd.allreduce(np.ones(100_000)))\n",
            HVDLITE_NETWORK_INTERFACES=BOTH,
            HVDLITE_HEARTBEAT_SECONDS="2",
        )
        ranks.wait_for_flags("up.0", "up.1")
        hosts.pull_the_cable(1, cable)
        ranks.end_well()
        told = [ranks.last(rank) for rank in range(2)]
        for rank in range(2):
            assert told[rank]["error"] == "PeerLostError", told
            assert told[rank]["peer"] in (0, 1), told
        if cable == "second":
            connection = [
                f"({hosts.address(rank, 1)}, eth1) with rank {1 - rank} "
                f"({hosts.address(1 - rank, 1)}) is interrupted"
                for rank in range(2)
            ]
            assert any(text in one["text"] for text in connection for one in told), told


def test_an_interface_that_does_not_reach_the_other_host_is_named(tmp_path: Path) -> None:
    with network.Network(2) as hosts:
        hosts.lay_second_cables()
        hosts.pull_the_cable(1, "second")
        with Ranks(tmp_path, 2, ("a", "b"), hosts.store) as ranks:
            start(ranks, hosts, "hvd.init()\n", HVDLITE_NETWORK_INTERFACES=BOTH,
                  HVDLITE_START_TIMEOUT="4")  # fmt: skip
            assert set(ranks.wait(40).values()) == {1}
            output = ranks.outputs()
            assert any(f"through eth1 ({hosts.address(host, 1)})" in output for host in range(2)), (
                output
            )
