"""The table of models, computed from their architectures. Pure."""

from __future__ import annotations

from collections.abc import Callable

from hvdlite.tools.simulate import convnets, transformers
from hvdlite.tools.simulate.layers import Layer

# In forward order.
MODELS: dict[str, Callable[[], list[Layer]]] = {
    "resnet50": lambda: convnets.resnet((3, 4, 6, 3)),
    "resnet101": lambda: convnets.resnet((3, 4, 23, 3)),
    "inception_v3": convnets.inception_v3,
    "vgg16": convnets.vgg16,
    "bert-base": lambda: transformers.bert(width=768, blocks=12),
    "bert-large": lambda: transformers.bert(width=1024, blocks=24),
    "gpt2-small": lambda: transformers.gpt2(width=768, blocks=12),
}
