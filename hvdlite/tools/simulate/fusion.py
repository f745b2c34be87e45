"""Which gradients travel together, as csrc/engine/fuse/plan.cc decides. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from hvdlite.tools.simulate.schedule import Gradient

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


def _fused(gradients: Iterable[Gradient], threshold: float) -> Iterable[list[Gradient]]:
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
