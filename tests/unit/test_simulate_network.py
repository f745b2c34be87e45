"""hvdlite.tools.simulate: the cost of algorithms, and which of them runs."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from hvdlite.tools.simulate import algorithms, choice
from hvdlite.tools.simulate.cluster import Cluster, negotiation_levels, negotiation_seconds

ROOT = Path(__file__).parents[2]
KIB, MIB = 1 << 10, 1 << 20
# A byte takes 1 ns between hosts and 0.1 ns inside; messages are free.
BYTES = Cluster(
    ranks=4,
    latency=0.0,
    bandwidth=1e9,
    goodput=1.0,
    host_latency=0.0,
    host_bandwidth=1e10,
    message_overhead=0.0,
    reduce_seconds=0.0,
)
# Bytes are free; a message between hosts takes 1 s, and one inside 0.1 s.
MESSAGES = replace(BYTES, latency=1.0, host_latency=0.1, bandwidth=1e30, host_bandwidth=1e30)


def on(base: Cluster, ranks: int, per_host: int = 1) -> Cluster:
    return replace(base, ranks=ranks, ranks_per_host=per_host)


@pytest.mark.parametrize(
    ("name", "ranks", "per_host", "bytes_"),
    [
        # 2 (n-1)/n of the bytes cross each card.
        ("ring", 2, 1, 1.0),
        ("ring", 4, 1, 1.5),
        ("ring", 8, 1, 1.75),
        ("ring", 4, 2, 1.5),
        ("interleaved ring", 4, 2, 3.0),
        ("direct", 4, 1, 1.5),
        ("direct", 4, 2, 2.0),  # 2 ranks x 2 peers x 1/4, twice
        ("one-shot", 4, 1, 3.0),
        ("gather", 4, 1, 3.0),
        ("halving", 4, 1, 1.5),
        ("halving", 4, 2, 1.1),  # 2 x (1/2 inside, 1/2 through the card)
        ("ring", 4, 4, 0.15),
        ("ring", 1, 1, 0.0),
    ],
)
def test_bytes_through_the_busiest_card(
    name: str, ranks: int, per_host: int, bytes_: float
) -> None:
    seconds = algorithms.ALGORITHMS[name](1e9, on(BYTES, ranks, per_host))
    assert seconds == pytest.approx(bytes_)


@pytest.mark.parametrize(
    ("name", "ranks", "per_host", "seconds"),
    [
        ("ring", 4, 1, 6.0),  # 2 (n-1)
        ("ring", 8, 4, 2 * 7 / 8 * (2 + 6 * 0.1)),  # 2 of 8 links are between hosts
        ("halving", 8, 1, 6.0),  # 2 log2 n
        ("halving", 8, 4, 2 + 4 * 0.1),
        ("direct", 8, 1, 2.0),
        ("one-shot", 8, 1, 1.0),
        ("gather", 8, 1, 3.0),  # log2 n
        ("double tree", 8, 1, 6.0),
    ],
)
def test_messages_one_after_another(name: str, ranks: int, per_host: int, seconds: float) -> None:
    found = algorithms.ALGORITHMS[name](0.0, on(MESSAGES, ranks, per_host))
    assert found == pytest.approx(seconds)


@pytest.mark.parametrize("name", [n for n in algorithms.ALGORITHMS if "one-shot" not in n])
def test_more_bytes_never_take_less_time(name: str) -> None:
    cluster = Cluster(ranks=16, ranks_per_host=4)
    times = [algorithms.ALGORITHMS[name](2.0**power, cluster) for power in range(30)]
    assert times == sorted(times)


@pytest.mark.parametrize(
    ("size", "ranks", "expected", "microseconds"),
    [
        # From the sentences of the core in timelines.
        (4, 2, "one-shot", 15.0),
        (64 * KIB, 2, "one-shot", 36.6),
        (MIB, 2, "direct", 360),
        (16 * MIB, 2, "direct", 5310),
        (16 * KIB, 4, "one-shot", 37.2),
        (64 * KIB, 4, "direct", 73.0),
        (4 * MIB, 4, "direct", 2020),
        (4, 8, "one-shot", 33.0),
        (16 * KIB, 8, "one-shot", 70.8),
        (64 * KIB, 8, "direct", 102),
        (16 * MIB, 8, "direct", 9310),
        # From choose.cc's formulas.
        (4, 64, "gather", 90.1),
        (64 * KIB, 128, "direct", 827),
    ],
)
def test_hvdlite_chooses_by_its_own_constants(
    size: int, ranks: int, expected: str, microseconds: float
) -> None:
    assert choice.over_links(size, ranks) == expected
    seconds = algorithms.ALGORITHMS[expected](size, replace(choice.HVDLITES, ranks=ranks))
    assert seconds * 1e6 == pytest.approx(microseconds, rel=0.01)


def test_the_constants_are_those_of_the_core() -> None:
    header = (ROOT / "csrc" / "comm" / "choose.h").read_text()
    hierarchical = (ROOT / "csrc" / "comm" / "hierarchical" / "communicator.cc").read_text()

    def constant(name: str) -> float:
        found = re.search(rf"double {name} = ([\d.e-]+);", header)
        assert found is not None
        return float(found[1])

    assert constant("alpha") == choice.HVDLITES.latency
    assert constant("overhead") == choice.HVDLITES.message_overhead
    assert constant("beta") == pytest.approx(choice.HVDLITES.card)
    assert constant("gamma") == choice.HVDLITES.reduce_seconds
    assert "kGatherMaxBytes = 4 << 20;" in header
    assert choice.GATHER_MAX_BYTES == 4 << 20
    assert "kExchangeMaxElements = 16 << 10;" in hierarchical
    assert choice.EXCHANGE_MAX_ELEMENTS == 16 << 10


def test_a_hierarchical_allreduce_takes_each_byte_through_each_card_once_per_direction() -> None:
    for per_host in (1, 2, 4):
        cluster = on(replace(BYTES, host_bandwidth=1e30), 4 * per_host, per_host)
        assert choice.hvdlite(1e9, cluster).seconds == pytest.approx(1.5)


def test_16_bit_sums_between_hosts_take_three_quarters_of_float32s_bytes() -> None:
    cluster = on(replace(BYTES, host_bandwidth=1e30), 8, 2)
    whole = choice.hvdlite(1e9, cluster).seconds
    assert choice.hvdlite(0.5e9, cluster, half=True).seconds == pytest.approx(0.75 * whole)
    # With one rank on each host they travel as 16-bit floats both ways.
    flat = on(BYTES, 8)
    whole = choice.hvdlite(1e9, flat).seconds
    assert choice.hvdlite(0.5e9, flat, half=True).seconds == pytest.approx(0.5 * whole)


def test_few_16_bit_sums_cross_in_one_exchange() -> None:
    cluster = on(MESSAGES, 8, 2)
    few, many = 2.0 * 1024, 2.0 * 1024 * 1024
    assert choice.hvdlite(few, cluster, half=True).how == "hierarchical, one-shot"
    assert choice.hvdlite(many, cluster, half=True).how == "hierarchical"


def test_the_carrier_follows_from_the_places() -> None:
    size = 64.0 * MIB
    assert choice.hvdlite(size, on(BYTES, 4, 4)).how == "shm"
    assert choice.hvdlite(size, on(BYTES, 4)).how == "net direct"
    assert choice.hvdlite(size, on(BYTES, 4, 2)).how.startswith("hierarchical")
    cluster = Cluster(ranks=512, ranks_per_host=4)
    assert choice.nccl(4.0, cluster).how == "nccl tree"
    assert choice.nccl(1024.0 * MIB, replace(cluster, ranks=8)).how == "nccl ring"


@pytest.mark.parametrize(
    ("hosts", "levels"), [(1, 0), (2, 1), (5, 1), (6, 2), (21, 2), (22, 3), (85, 3)]
)
def test_the_negotiation_tree_has_four_hosts_below_each(hosts: int, levels: int) -> None:
    assert negotiation_levels(hosts) == levels


def test_negotiation_grows_with_the_depth_and_the_tensors() -> None:
    assert negotiation_seconds(on(MESSAGES, 1), 100) == 0
    assert negotiation_seconds(on(MESSAGES, 4, 4), 0) == pytest.approx(0.2)
    assert negotiation_seconds(on(MESSAGES, 24, 4), 0) == pytest.approx(2 * (0.1 + 2))


def test_hosts_must_be_full() -> None:
    assert Cluster(ranks=2, ranks_per_host=8).local == 2
    with pytest.raises(ValueError, match="6 ranks do not fill hosts of 4"):
        Cluster(ranks=6, ranks_per_host=4)
    with pytest.raises(ValueError, match="at least one rank"):
        Cluster(ranks=0)
