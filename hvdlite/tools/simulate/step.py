"""One step of a job: gradients become ready, batches wait for the network. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hvdlite.tools.simulate.choice import Carried, Carrier
from hvdlite.tools.simulate.cluster import Cluster, negotiation_seconds
from hvdlite.tools.simulate.fusion import Batch


@dataclass(frozen=True)
class Step:
    seconds: float
    communication: float  # the time in which a batch was under way
    how: str  # what carried the largest batch


def run(
    computes: float, batches: Sequence[Batch], cluster: Cluster, carry: Carrier, half: bool = False
) -> Step:
    """The slowest rank computes for that long. Batches follow one another, in order. `half`: they
    hold 16-bit floats."""
    free, busy = 0.0, 0.0
    largest = 0.0
    how = "-"
    for batch in batches:
        carried: Carried = carry(batch.size, cluster, half)
        agreed = batch.submitted + negotiation_seconds(cluster, batch.tensors)
        free = max(free, agreed) + carried.seconds
        busy += carried.seconds
        if batch.size > largest:
            largest, how = batch.size, carried.how
    return Step(max(computes, free), busy, how)
