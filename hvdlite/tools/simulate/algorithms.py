"""The time of an allreduce by each algorithm. Pure.

n ranks with k on each of h hosts reduce M bytes. Each function takes the bytes and the cluster, and
returns seconds. The busiest link decides: a host's card, which k ranks share, or the way inside a
host. docs/how-it-works/algorithms.md explains the algorithms of hvdlite.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from hvdlite.tools.simulate.cluster import Cluster

Cost = Callable[[float, Cluster], float]


def ceil_log2(n: int) -> int:
    return (n - 1).bit_length()


def _message(cluster: Cluster) -> float:
    """The time of one message between hosts."""
    return cluster.latency + cluster.message_overhead


def _inside(cluster: Cluster) -> float:
    """The seconds of a byte inside a host; 0 where each rank has a host of its own."""
    return cluster.inside if cluster.local > 1 else 0.0


def in_memory(size: float, cluster: Cluster) -> float:
    """All ranks of one host, in shared memory or over the links between its GPUs."""
    n = cluster.local
    if n == 1:
        return 0.0
    share = size * (n - 1) / n
    return 2 * (cluster.host_latency + share * cluster.inside) + share * cluster.reduce_seconds


def ring(size: float, cluster: Cluster, crossed: int = 1) -> float:
    """2 (n-1) steps, in each of which every rank sends M/n to the next one. `crossed` links of each
    host go through its card. What a rank sends first passes 2 (n-1) links, of both kinds."""
    n = cluster.ranks
    between = 0 if cluster.hosts == 1 else crossed * cluster.hosts
    steps = 2 * (n - 1)
    around = between * _message(cluster) + (n - between) * cluster.host_latency
    beta = max(crossed * cluster.card if between else 0.0, _inside(cluster))
    return steps / n * (around + size * beta) + size * (n - 1) / n * cluster.reduce_seconds


def interleaved_ring(size: float, cluster: Cluster) -> float:
    """The ring of ranks that were dealt to the hosts in turn, so that every link leaves a host."""
    return ring(size, cluster, cluster.local)


def halving(size: float, cluster: Cluster) -> float:
    """Recursive vector halving with the neighbours first, then back. The ranks of a host have M/k
    left when they turn to other hosts, all of them at once."""
    n, k = cluster.ranks, cluster.local
    inside = size * (1 - 1 / k) * cluster.inside + ceil_log2(k) * cluster.host_latency
    between = size * (1 - k / n) * cluster.card
    between += ceil_log2(cluster.hosts) * _message(cluster)
    return 2 * (inside + between) + size * (n - 1) / n * cluster.reduce_seconds


# The piece in which a double tree hands its data on.
_TREE_PIECE = 64 * 1024


def double_tree(size: float, cluster: Cluster) -> float:
    """Two trees of hosts of which each carries one half, up and down, in pieces. In each host a
    chain leads to the tree. A host is inside one tree and a leaf of the other, so it sends 2 M."""
    if cluster.ranks == 1:
        return 0.0
    deep, long = ceil_log2(cluster.hosts), cluster.local - 1
    beta = max(cluster.card if deep else 0.0, _inside(cluster))
    hop = min(size / 2, _TREE_PIECE) * beta
    fill = deep * (_message(cluster) + hop) + long * (cluster.host_latency + hop)
    return 2 * fill + 2 * size * beta + size * cluster.reduce_seconds


def _crowd(cluster: Cluster) -> float:
    """How many times a rank's own bytes its card has to carry if all ranks talk to all: of the n-1
    peers of each rank n-k are behind the card, which k ranks share."""
    n, k = cluster.ranks, cluster.local
    return max(1.0, k * (n - k) / (n - 1))


def direct(size: float, cluster: Cluster) -> float:
    """Each rank sends every other rank its share, adds its own, and sends the result to all."""
    n = cluster.ranks
    if n == 1:
        return 0.0
    share = size * (n - 1) / n
    once = cluster.latency + (n - 1) * cluster.message_overhead
    once += share * cluster.card * _crowd(cluster)
    return 2 * once + share * cluster.reduce_seconds


def one_shot(size: float, cluster: Cluster) -> float:
    """Each rank sends everything to every other rank, and adds all."""
    n = cluster.ranks
    if n == 1:
        return 0.0
    each = size * (cluster.card * _crowd(cluster) + cluster.reduce_seconds)
    return cluster.latency + (n - 1) * (cluster.message_overhead + each)


def gather(size: float, cluster: Cluster) -> float:
    """Each rank collects all tensors in stretches that double, and adds them."""
    n = cluster.ranks
    steps = ceil_log2(n) * _message(cluster)
    each = cluster.card * cluster.local + cluster.reduce_seconds
    return steps + (n - 1) * size * each


ALGORITHMS: Mapping[str, Cost] = {
    "ring": ring,
    "interleaved ring": interleaved_ring,
    "halving": halving,
    "double tree": double_tree,
    "direct": direct,
    "one-shot": one_shot,
    "gather": gather,
}
