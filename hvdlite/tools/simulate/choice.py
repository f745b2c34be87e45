"""Which algorithm runs. Pure.

hvdlite decides with constants of its own (csrc/comm/choose.h), whatever the network: all ranks must
decide alike. So the choice is made with those constants, and its time is predicted with the
cluster's.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from hvdlite.tools.simulate import algorithms
from hvdlite.tools.simulate.cluster import Cluster

# CostModel of csrc/comm/choose.h; a test compares them.
HVDLITES = Cluster(
    ranks=1,
    latency=12e-6,
    message_overhead=3e-6,
    bandwidth=1 / 0.30e-9,
    goodput=1.0,
    reduce_seconds=0.03e-9,
)
GATHER_MAX_BYTES = 4 << 20
# Shares of up to so many 16-bit floats cross between hosts as float32, in one exchange
# (csrc/comm/hierarchical/communicator.cc).
EXCHANGE_MAX_ELEMENTS = 16 << 10

_OVER_LINKS = ("one-shot", "direct", "gather")


def _legal(name: str, size: float, ranks: int) -> bool:
    return name != "gather" or size <= GATHER_MAX_BYTES // ranks


def over_links(size: float, ranks: int, per_card: int = 1) -> str:
    """The name of the algorithm that hvdlite uses among ranks that only links connect, of which
    `per_card` share a card."""
    model = replace(HVDLITES, ranks=ranks, ranks_per_host=per_card)
    legal = [name for name in _OVER_LINKS if _legal(name, size, ranks)]
    return min(legal, key=lambda name: algorithms.ALGORITHMS[name](size, model))


@dataclass(frozen=True)
class Carried:
    """How an allreduce was carried, and in which time."""

    how: str
    seconds: float


Carrier = Callable[[float, Cluster, bool], Carried]


def hvdlite(size: float, cluster: Cluster, half: bool = False) -> Carried:
    """An allreduce of hvdlite in host memory. `half`: of 16-bit floats."""
    if cluster.hosts == 1:
        return Carried("shm", algorithms.in_memory(size, cluster))
    if cluster.local == 1:
        name = over_links(size, cluster.ranks)
        return Carried(f"net {name}", algorithms.ALGORITHMS[name](size, cluster))
    return _hierarchical(size, cluster, half)


def _hierarchical(size: float, cluster: Cluster, half: bool) -> Carried:
    """A reduce-scatter inside each host, an allreduce between hosts for each local rank, all at
    once, and an allgather inside each host."""
    share = size / cluster.local
    # The allreduces share the card: each has its k-th part.
    rail = replace(
        cluster, ranks=cluster.hosts, ranks_per_host=1, bandwidth=cluster.bandwidth / cluster.local
    )
    inside = algorithms.in_memory(size, cluster)
    if half and share / 2 > EXCHANGE_MAX_ELEMENTS:
        # The sums cross in float32 and come back rounded: twice the bytes, and once.
        between = 0.75 * algorithms.direct(2 * share, rail)
        return Carried("hierarchical", inside + between)
    name = over_links(2 * share if half else share, cluster.hosts)
    between = algorithms.ALGORITHMS[name](2 * share if half else share, rail)
    how = "hierarchical" if name == "direct" else f"hierarchical, {name}"
    return Carried(how, inside + between)


def nccl(size: float, cluster: Cluster, half: bool = False) -> Carried:
    """NCCL on GPUs: rings through all ranks of a host and then the next, or trees."""
    ring, tree = algorithms.ring(size, cluster), algorithms.double_tree(size, cluster)
    return Carried("nccl ring", ring) if ring <= tree else Carried("nccl tree", tree)


def _always(name: str) -> Carrier:
    def carry(size: float, cluster: Cluster, half: bool = False) -> Carried:
        return Carried(name, algorithms.ALGORITHMS[name](size, cluster))

    return carry


CARRIERS: dict[str, Carrier] = {
    "hvdlite": hvdlite,
    "nccl": nccl,
    **{name.replace(" ", "-"): _always(name) for name in algorithms.ALGORITHMS},
}
