"""Models as lists of layers, computed from their architectures. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Layer:
    """What becomes ready at once in the backward pass. `work` is the number of multiplications of
    the forward pass for one sample; only its ratio to other layers counts."""

    name: str
    tensors: tuple[tuple[str, int], ...]  # name and numbers
    work: float

    @property
    def numbers(self) -> int:
        return sum(count for _, count in self.tensors)


def numbers(layers: Sequence[Layer]) -> int:
    """The number of parameters."""
    return sum(layer.numbers for layer in layers)


def _models() -> dict[str, Callable[[], list[Layer]]]:
    from hvdlite.simulate import convnets, transformers

    return {
        "resnet50": lambda: convnets.resnet((3, 4, 6, 3)),
        "resnet101": lambda: convnets.resnet((3, 4, 23, 3)),
        "inception_v3": convnets.inception_v3,
        "vgg16": convnets.vgg16,
        "bert-base": lambda: transformers.bert(width=768, blocks=12),
        "bert-large": lambda: transformers.bert(width=1024, blocks=24),
        "gpt2-small": lambda: transformers.gpt2(width=768, blocks=12),
    }


NAMES = tuple(_models())


def layers_of(name: str) -> list[Layer]:
    """The layers of a model, in forward order. KeyError if there is none of this name."""
    return _models()[name]()
