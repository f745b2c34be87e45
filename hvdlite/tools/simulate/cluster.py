"""What connects the ranks of a job. Pure."""

from __future__ import annotations

from dataclasses import dataclass

# What TCP leaves of a line rate with Ethernet frames of 1500 bytes: 1448 bytes of payload travel
# in a frame that takes 1538 on the wire.
ETHERNET_GOODPUT = 1448 / 1538


@dataclass(frozen=True)
class Cluster:
    """Times in seconds, rates in bytes per second. A host's card is shared by its ranks, and sends
    and receives at its rate at the same time."""

    ranks: int
    ranks_per_host: int = 1
    latency: float = 25e-6  # of one message between hosts
    bandwidth: float = 25e9 / 8  # the line rate of a card
    goodput: float = ETHERNET_GOODPUT  # the share of the line rate that payload gets
    host_latency: float = 2e-6  # of one hand-over inside a host
    host_bandwidth: float = 10e9  # of one rank inside a host: what NCCL calls bus bandwidth
    message_overhead: float = 3e-6  # of a CPU, for each message between hosts
    reduce_seconds: float = 0.03e-9  # for each byte that is added

    def __post_init__(self) -> None:
        if self.ranks < 1 or self.ranks_per_host < 1:
            raise ValueError("a job has at least one rank, and a host at least one of them")
        if self.ranks > self.ranks_per_host and self.ranks % self.ranks_per_host:
            raise ValueError(
                f"{self.ranks} ranks do not fill hosts of {self.ranks_per_host}; the model needs "
                "as many ranks on each host"
            )

    @property
    def local(self) -> int:
        """The ranks of each host."""
        return min(self.ranks, self.ranks_per_host)

    @property
    def hosts(self) -> int:
        return self.ranks // self.local

    @property
    def card(self) -> float:
        """Seconds in which a card sends a byte of payload."""
        return 1 / (self.bandwidth * self.goodput)

    @property
    def inside(self) -> float:
        """Seconds in which a rank sends a byte inside its host."""
        return 1 / self.host_bandwidth


def negotiation_levels(hosts: int, fanout: int = 4) -> int:
    """The depth of the tree of hosts in which the ranks negotiate (csrc/comm/topology.cc)."""
    levels = 0
    last = hosts - 1
    while last > 0:
        last = (last - 1) // fanout
        levels += 1
    return levels


# What the root spends on a tensor that it knows (docs/benchmarks/index.md, "Many ranks").
_SECONDS_PER_TENSOR = 1.2e-6


def negotiation_seconds(cluster: Cluster, tensors: int) -> float:
    """The time from the last rank's request to the decision on all ranks."""
    if cluster.ranks == 1:
        return 0.0
    inside = cluster.host_latency if cluster.local > 1 else 0.0
    between = negotiation_levels(cluster.hosts) * (cluster.latency + cluster.message_overhead)
    return 2 * (inside + between) + tensors * _SECONDS_PER_TENSOR
