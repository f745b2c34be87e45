"""The gradients of one step: how large each is, when it is ready, which travel together. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from hvdlite.tools.simulate.models import Layer

# The backward pass computes two products for each one of the forward pass.
BACKWARD_SHARE = 2 / 3
_FLOAT32 = 4


@dataclass(frozen=True)
class Gradient:
    name: str
    size: float  # bytes
    ready: float  # seconds since the step began


@dataclass(frozen=True)
class Schedule:
    """One step of one rank that waits for no other. `gradients` are in the order in which they are
    ready, at the latest after `seconds`."""

    gradients: tuple[Gradient, ...]
    seconds: float

    @property
    def size(self) -> float:
        return sum(gradient.size for gradient in self.gradients)

    def stretched(self, factor: float) -> Schedule:
        """The same step on a rank that computes so many times as long."""
        slower = tuple(replace(g, ready=g.ready * factor) for g in self.gradients)
        return Schedule(slower, self.seconds * factor)

    def compressed(self, factor: float) -> Schedule:
        """The same step with gradients that are so many times as large."""
        smaller = tuple(replace(g, size=g.size * factor) for g in self.gradients)
        return Schedule(smaller, self.seconds)


def of_model(
    layers: Sequence[Layer], seconds: float, backward_share: float = BACKWARD_SHARE
) -> Schedule:
    """The schedule of a model whose step takes a rank that long. `layers` are in forward order.
    Each takes as much of the backward pass as its share of the arithmetic."""
    if seconds <= 0 or not 0 < backward_share <= 1:
        raise ValueError("a step takes time, and its backward pass is a part of it")
    whole = sum(layer.work for layer in layers)
    now = seconds * (1 - backward_share)
    gradients = []
    for layer in reversed(layers):
        now += seconds * backward_share * layer.work / whole
        for name, numbers in reversed(layer.tensors):
            gradients.append(Gradient(f"{layer.name}.{name}", _FLOAT32 * numbers, now))
    return Schedule(tuple(gradients), seconds)


# Which gradients travel together, as csrc/engine/fuse/plan.cc decides.

THRESHOLD = 128 << 20
WINDOW = 1e-3


@dataclass(frozen=True)
class Batch:
    size: float  # bytes
    tensors: int
    submitted: float  # seconds since the step began


def together(gradients: Sequence[Gradient], window: float) -> list[list[Gradient]]:
    """The gradients that are announced at once. `gradients` are in order of time. The engine sends
    what has become ready within the window after the first one."""
    groups: list[list[Gradient]] = []
    for gradient in gradients:
        if groups and gradient.ready <= groups[-1][0].ready + window:
            groups[-1].append(gradient)
        else:
            groups.append([gradient])
    return groups


def _fused(gradients: Sequence[Gradient], threshold: float) -> Iterator[list[Gradient]]:
    batch: list[Gradient] = []
    for gradient in gradients:
        if batch and sum(g.size for g in batch) + gradient.size > threshold:
            yield batch
            batch = []
        batch.append(gradient)
    if batch:
        yield batch


def plan(
    gradients: Sequence[Gradient], threshold: float = THRESHOLD, window: float = WINDOW
) -> list[Batch]:
    """The batches of a step, in order. A threshold of 0 turns fusion off."""
    return [
        Batch(sum(g.size for g in batch), len(batch), max(g.ready for g in batch))
        for group in together(gradients, window)
        for batch in _fused(group, threshold)
    ]
