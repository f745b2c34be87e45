"""What simulate.py measures, and what hvdlite.tools.simulate says about it. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import shaped

from hvdlite.tools.simulate import algorithms, choice, models, predict, schedule
from hvdlite.tools.simulate.cluster import Cluster

MEGABITS = 100
SIZES = (1 << 20, 4 << 20, 8 << 20)


def crossings(hosts: Sequence[int]) -> int:
    """How many links of a ring leave the host that most of them leave. `hosts[i]` is the host of
    the ring's i-th rank. 1 is a good order: 0 0 1 1. With 0 1 0 1 it is 2."""
    leaving: dict[int, int] = {}
    for here, there in zip(hosts, [*hosts[1:], hosts[0]], strict=True):
        if here != there:
            leaving[here] = leaving.get(here, 0) + 1
    return max(leaving.values(), default=0)


@dataclass(frozen=True)
class Job:
    """`places[i]`: the host of rank i."""

    name: str
    places: tuple[int, ...]
    library: str = "hvdlite"
    what: str = "allreduce"
    dtype: str = "float32"
    environment: dict[str, str] = field(default_factory=dict)

    def cluster(self, latency: float) -> Cluster:
        hosts = len(set(self.places))
        return Cluster(
            ranks=len(self.places),
            ranks_per_host=len(self.places) // hosts,
            latency=latency,
            bandwidth=MEGABITS * 1e6 / 8,
            goodput=shaped.GOODPUT,
        )

    def predicted(self, size: int, latency: float) -> float:
        cluster = self.cluster(latency)
        if self.what == "allgather":
            return algorithms.ring(size * cluster.ranks, cluster, crossings(self.places)) / 2
        if self.library == "gloo":
            return algorithms.ring(size, cluster, crossings(self.places))
        if self.environment:
            return algorithms.direct(size, cluster)
        return choice.hvdlite(size, cluster, half=self.dtype == "float16").seconds


_FLAT = {"HVDLITE_HIERARCHICAL_ALLREDUCE": "off", "HVDLITE_DEBUG_NET_ALGORITHM": "direct"}
_RING = {"HVDLITE_DEBUG_NET_ALGORITHM": "ring"}
JOBS = (
    Job("ring, 2 hosts (Gloo)", (0, 1), "gloo"),
    Job("ring, 4 hosts (Gloo)", (0, 1, 2, 3), "gloo"),
    Job("ring, 8 hosts (Gloo)", tuple(range(8)), "gloo"),
    Job("ring, 2 × 2 ranks in order (Gloo)", (0, 0, 1, 1), "gloo"),
    Job("ring, 2 × 2 ranks interleaved (Gloo)", (0, 1, 0, 1), "gloo"),
    Job("direct, 2 hosts", (0, 1)),
    Job("direct, 4 hosts", (0, 1, 2, 3)),
    Job("direct, 8 hosts", tuple(range(8))),
    Job("direct, 2 × 2 ranks, flat", (0, 0, 1, 1), environment=_FLAT),
    Job("hierarchical, 2 × 2 ranks", (0, 0, 1, 1)),
    Job("hierarchical, 2 × 2 ranks, float16", (0, 0, 1, 1), dtype="float16"),
    Job("ring allgather, 4 hosts", (0, 1, 2, 3), what="allgather", environment=_RING),
)

# A ResNet-50 with a sixteenth of its numbers, which computes for half a second.
STEP_SECONDS = 0.5
_SHRUNK = 16


def small_resnet() -> schedule.Schedule:
    whole = schedule.of_model(models.MODELS["resnet50"](), STEP_SECONDS)
    return replace(
        whole,
        gradients=tuple(
            replace(g, size=4 * max(1, int(g.size) // 4 // _SHRUNK)) for g in whole.gradients
        ),
    )


STEPS = (
    Job("steps, 2 hosts", (0, 1), what="step"),
    Job("steps, 4 hosts", (0, 1, 2, 3), what="step"),
    Job("steps, 2 × 2 ranks", (0, 0, 1, 1), what="step"),
)


def predicted_step(job: Job, alone: schedule.Schedule, latency: float) -> float:
    return predict.predict(alone, job.cluster(latency)).step


@dataclass(frozen=True)
class Published:
    """An efficiency of Horovod's paper: 128 servers with 4 GPUs each and 25 Gbit/s."""

    model: str
    efficiency: float
    images: float  # a second, of one GPU

    @property
    def step(self) -> float:
        return 64 / self.images


# Images a second of a P100 with batches of 64: TensorFlow's benchmarks of May 2017. ResNet-101 is
# between their ResNet-50 (219) and ResNet-152 (91.8), by its arithmetic.
PUBLISHED = (
    Published("inception_v3", 0.90, 142.0),
    Published("resnet101", 0.90, 129.0),
    Published("vgg16", 0.68, 154.0),
)
PUBLISHED_CLUSTER = Cluster(ranks=512, ranks_per_host=4, bandwidth=25e9 / 8)
# Horovod's fusion buffer of that time. TensorFlow enqueues its operations ahead of the GPU, so the
# buffer fills before the gradients in it are ready.
PUBLISHED_OPTIONS = predict.RunOptions(carrier="ring", threshold=64 << 20, window=10.0, jitter=0.02)


def published_efficiency(published: Published, **changed: Any) -> float:
    """`changed`: goodput, latency or jitter instead of the defaults."""
    jitter = changed.pop("jitter", PUBLISHED_OPTIONS.jitter)
    alone = schedule.of_model(models.MODELS[published.model](), published.step)
    return predict.predict(
        alone,
        replace(PUBLISHED_CLUSTER, **changed),
        options=replace(PUBLISHED_OPTIONS, jitter=jitter),
    ).efficiency


# Assumptions and other values they might have.
VARIATIONS: Sequence[tuple[str, dict[str, float]]] = (
    ("as assumed", {}),
    ("85 % of the line rate for payload", {"goodput": 0.85}),
    ("75 % of the line rate for payload", {"goodput": 0.75}),
    ("a latency of 10 µs", {"latency": 10e-6}),
    ("a latency of 50 µs", {"latency": 50e-6}),
    ("no jitter", {"jitter": 0.0}),
    ("jitter of 4 %", {"jitter": 0.04}),
)
