"""Between hosts that share nothing but a cable."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import network
import pytest
from bare_ranks import Ranks

from hvdlite.exceptions import Cause

HOSTS = ("a", "a", "b", "b")

_WHY_NOT = network.why_not()
pytestmark = pytest.mark.skipif(_WHY_NOT is not None, reason=_WHY_NOT or "")

EVERY_COLLECTIVE = f"""
hvd.init()
place = (hvd.rank(), hvd.local_rank(), hvd.cross_rank())
assert place == (RANK, RANK % 2, RANK // 2), place
{network.COLLECTIVES}
"""
ONE_ALLREDUCE = """
hvd.init()
assert hvd.cross_size() == 2
x = np.ones(100_000)
assert (hvd.allreduce(x, op=hvd.Sum) == 2).all()
"""


@pytest.fixture(params=[4, 6], ids=["IPv4", "IPv6"])
def hosts(request: pytest.FixtureRequest) -> Iterator[network.Network]:
    with network.Network(2, request.param) as two:
        yield two


def start(ranks: Ranks, hosts: network.Network, program: str, **extra: str) -> None:
    for host, name in enumerate("ab"):
        members = [rank for rank in range(ranks.size) if ranks.hosts[rank] == name]
        ranks.start(program, ranks=members, prefix=hosts.prefix(host), **extra)


@pytest.mark.parametrize(
    ("places", "program"),
    [(HOSTS, EVERY_COLLECTIVE), (("a", "b"), ONE_ALLREDUCE)],
    ids=["2x2", "1x1"],
)
def test_collectives_between_namespaces(
    tmp_path: Path, hosts: network.Network, places: tuple[str, ...], program: str
) -> None:
    with Ranks(tmp_path, len(places), places, hosts.store) as ranks:
        start(ranks, hosts, program)
        ranks.end_well(40)


def test_a_rank_that_dies_on_another_host_is_named_within_a_second(
    tmp_path: Path, hosts: network.Network
) -> None:
    """Or a little later where a rank is held up; no silence tells it here."""
    with Ranks(tmp_path, 4, HOSTS, hosts.store) as ranks:
        start(
            ranks,
            hosts,
            "hvd.init(); hvd.barrier(); flag(f'up.{RANK}')\nuntil_it_fails(lambda: "
            "hvd.allreduce(np.ones(1000)))\n",
            HVDLITE_HEARTBEAT_SECONDS="0",
        )
        ranks.wait_for_flags(*(f"up.{rank}" for rank in range(4)))
        killed = ranks.kill(3)
        ranks.wait(20)
        for rank in range(3):
            ranks.expect_named(rank, 3, killed)


def test_a_cable_that_is_pulled_ends_the_job_on_both_sides(
    tmp_path: Path, hosts: network.Network
) -> None:
    """No FIN, no RST: only the silence tells."""
    with Ranks(tmp_path, 4, HOSTS, hosts.store) as ranks:
        program = (
            "hvd.init(); hvd.barrier(); flag(f'up.{RANK}')\nuntil_it_fails(lambda: "
            "hvd.allreduce(np.ones(1000)))\n"
        )
        start(ranks, hosts, program, HVDLITE_HEARTBEAT_SECONDS="2")
        ranks.wait_for_flags(*(f"up.{rank}" for rank in range(4)))
        hosts.pull_the_cable(1)
        ranks.end_well(30)
        for rank in range(4):
            told = ranks.last(rank)
            assert told["error"] == "PeerLostError", told
            assert HOSTS[told["peer"]] != HOSTS[rank], told


def test_a_way_that_loses_large_packets_ends_the_job_with_their_link_and_says_where_everybody_is(
    tmp_path: Path, hosts: network.Network
) -> None:
    """Short ones get through, and so do all signs of life."""
    with Ranks(tmp_path, 2, ("a", "b"), hosts.store) as ranks:
        program = (
            "hvd.init(); hvd.barrier(); flag(f'up.{RANK}'); wait_flag('narrow')\n"
            "large = hvd.allreduce_async(np.ones(300_000), name='large')\n"
            "if RANK == 1: hvd.allreduce_async(np.ones(1), name='only on rank 1')\n"
            "until_it_fails(lambda: hvd.synchronize(large))\n"
        )
        start(
            ranks,
            hosts,
            program,
            HVDLITE_HEARTBEAT_SECONDS="3",
            HVDLITE_STALL_CHECK_TIME_SECONDS="1",
        )
        ranks.wait_for_flags("up.0", "up.1")
        hosts.lose_large_packets(1)
        (tmp_path / "narrow").touch()
        ranks.end_well()
        for rank in range(2):
            told = ranks.last(rank)
            assert told["error"] == "PeerLostError", told
            for text in (
                f"the connection of rank {told['peer'] ^ 1} ({hosts.address(told['peer'] ^ 1)})",
                f"with rank {told['peer']} ({hosts.address(told['peer'])}) is interrupted",
                "bytes are sent, but nothing has been acknowledged for",
                "MTU",
            ):
                assert text in told["text"], told
            ranks.expect_loss(rank, (Cause.NETWORK,), told["peer"], told["peer"] ^ 1)
        # Rank 0 is inside hvdlite's own transfer, and can say so.
        output = ranks.outputs()
        assert "only on rank 1" in output and "it is in program.0.py:" in output, output
        assert "interpreter lock" not in output, output


@pytest.mark.skipif(network.why_not_loss() is not None, reason=network.why_not_loss() or "")
def test_ranks_whose_large_packets_are_lost_from_the_start_are_not_said_to_be_absent(
    tmp_path: Path, hosts: network.Network
) -> None:
    """What they call with is short. What they say of themselves is not."""
    hosts.swallow_large_packets(1, 200)
    with Ranks(tmp_path, 4, HOSTS, hosts.store) as ranks:
        start(
            ranks,
            hosts,
            "try: hvd.init()\nexcept Exception as error: tell(text=str(error))\n",
            HVDLITE_START_TIMEOUT="4",
        )
        ranks.wait(40)
        for rank in (0, 1):
            text = ranks.last(rank)["text"]
            assert text.startswith("rank 2, rank 3 called hvd.init(), but did not say"), text
            assert "MTU" in text and "did not call" not in text, text


def test_an_interface_may_be_named_and_a_wrong_name_lists_what_there_is(
    tmp_path: Path, hosts: network.Network
) -> None:
    with Ranks(tmp_path, 4, HOSTS, hosts.store) as ranks:
        start(
            ranks,
            hosts,
            "hvd.init()\nassert hvd.allreduce(1, op=hvd.Sum) == 4\n",
            HVDLITE_NETWORK_INTERFACES="eth0",
        )
        ranks.end_well(40)
    with Ranks(tmp_path, 1, ("a",), hosts.store) as ranks:
        ranks.size = 4
        ranks.start(
            "hvd.init()\n", ranks=[0], prefix=hosts.prefix(0), HVDLITE_NETWORK_INTERFACES="ib0"
        )
        assert ranks.wait(20) == {0: 1}
        output = ranks.outputs()
        assert "ib0" in output and "eth0" in output, output
