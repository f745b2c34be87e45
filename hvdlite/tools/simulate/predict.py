"""The answer to one question: so many ranks, this network, this compression. Pure."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist

from hvdlite.tools.simulate.choice import CARRIERS, Carried, Carrier
from hvdlite.tools.simulate.cluster import Cluster, negotiation_seconds
from hvdlite.tools.simulate.schedule import THRESHOLD, WINDOW, Batch, Schedule, plan

# What a gradient in float32 becomes.
COMPRESSIONS: Mapping[str, float] = {"none": 1.0, "fp16": 0.5, "bf16": 0.5}
_REACH = 9.0  # standard deviations; beyond lies nothing, for fewer than 10^15 ranks
_STEPS = 3600


@dataclass(frozen=True)
class RunOptions:
    """How the job is run."""

    carrier: str = "hvdlite"
    threshold: float = THRESHOLD
    window: float = WINDOW
    overlap: bool = True  # gradients are reduced during the backward pass
    jitter: float = 0.0  # the scatter of single ranks' computing times, as a share


@dataclass(frozen=True)
class Prediction:
    cluster: Cluster
    compression: str
    alone: float  # a step of one rank, in seconds
    computes: float  # a step of the slowest rank, without waiting for the network
    step: float  # a step of the job
    communication: float
    batches: int
    how: str

    @property
    def waits(self) -> float:
        """The part of the step in which the slowest rank waits for the network."""
        return self.step - self.computes

    @property
    def efficiency(self) -> float:
        """The samples per second of a rank in the job, as a share of those of one rank alone."""
        return self.alone / self.step

    @property
    def speedup(self) -> float:
        """The samples per second of the job, in those of one rank alone."""
        return self.efficiency * self.cluster.ranks


def predict(
    schedule: Schedule,
    cluster: Cluster,
    compression: str = "none",
    options: RunOptions = RunOptions(),  # noqa: B008, it cannot change
) -> Prediction:
    """`schedule` is that of one rank alone. All ranks do the same work."""
    factor = COMPRESSIONS[compression]
    slowest = schedule.stretched(stretch(cluster.ranks, options.jitter))
    gradients = slowest.compressed(factor).gradients
    if not options.overlap:
        gradients = tuple(replace(g, ready=slowest.seconds) for g in gradients)
    batches = plan(gradients, options.threshold, options.window)
    if cluster.ranks == 1:
        batches = []
    carry = CARRIERS[options.carrier]
    found = run_step(slowest.seconds, batches, cluster, carry, half=factor < 1)
    return Prediction(
        cluster,
        compression,
        schedule.seconds,
        slowest.seconds,
        found.seconds,
        found.communication,
        len(batches),
        found.how,
    )


# How late the slowest of many ranks is.


@functools.cache
def expected_maximum(ranks: int) -> float:
    """The mean of the largest of so many draws from the standard normal distribution."""
    if ranks == 1:
        return 0.0
    normal = NormalDist()
    width = 2 * _REACH / _STEPS
    middles = (-_REACH + (step + 0.5) * width for step in range(_STEPS))
    below = sum(normal.cdf(x) ** ranks for x in middles) * width
    # The mean of a variable on [-R, R] is R minus the integral of its distribution function.
    return _REACH - below


def stretch(ranks: int, deviation: float) -> float:
    """How many times the mean time the slowest rank computes. Times of single ranks scatter by
    this share of their mean."""
    return 1 + deviation * expected_maximum(ranks)


# One step of a job: gradients become ready, batches wait for the network.


@dataclass(frozen=True)
class SimulatedStep:
    seconds: float
    communication: float  # the time in which a batch was under way
    how: str  # what carried the largest batch


def run_step(
    computes: float, batches: Sequence[Batch], cluster: Cluster, carry: Carrier, half: bool = False
) -> SimulatedStep:
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
    return SimulatedStep(max(computes, free), busy, how)
