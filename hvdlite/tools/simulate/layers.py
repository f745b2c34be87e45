"""A model as a list of layers. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Layer:
    """What becomes ready at once in the backward pass. `work` is the number of multiplications of
    the forward pass for one sample; only its ratio to other layers counts."""

    name: str
    tensors: tuple[tuple[str, int], ...]  # name and numbers
    work: float


def parameters(layers: Sequence[Layer]) -> int:
    """How many numbers a model has."""
    return sum(count for layer in layers for _, count in layer.tensors)
