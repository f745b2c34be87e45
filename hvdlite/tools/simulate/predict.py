"""The answer to one question: so many ranks, this network, this compression. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from hvdlite.tools.simulate import fusion, jitter, step
from hvdlite.tools.simulate.choice import CARRIERS
from hvdlite.tools.simulate.cluster import Cluster
from hvdlite.tools.simulate.schedule import Schedule

# What a gradient in float32 becomes.
COMPRESSIONS: Mapping[str, float] = {"none": 1.0, "fp16": 0.5, "bf16": 0.5}


@dataclass(frozen=True)
class Options:
    """How the job is run."""

    carrier: str = "hvdlite"
    threshold: float = fusion.THRESHOLD
    window: float = fusion.WINDOW
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
    options: Options = Options(),  # noqa: B008, it cannot change
) -> Prediction:
    """`schedule` is that of one rank alone. All ranks do the same work."""
    factor = COMPRESSIONS[compression]
    slowest = schedule.stretched(jitter.stretch(cluster.ranks, options.jitter))
    gradients = slowest.compressed(factor).gradients
    if not options.overlap:
        gradients = tuple(replace(g, ready=slowest.seconds) for g in gradients)
    batches = fusion.plan(gradients, options.threshold, options.window)
    if cluster.ranks == 1:
        batches = []
    carry = CARRIERS[options.carrier]
    found = step.run(slowest.seconds, batches, cluster, carry, half=factor < 1)
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
