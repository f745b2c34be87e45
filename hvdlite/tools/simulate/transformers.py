"""Transformers as layers. Pure."""

from __future__ import annotations

from hvdlite.tools.simulate.layers import Layer


def _linear(name: str, inputs: int, outputs: int) -> list[tuple[str, int]]:
    return [(f"{name}.weight", inputs * outputs), (f"{name}.bias", outputs)]


def _norm(name: str, width: int) -> list[tuple[str, int]]:
    return [(f"{name}.weight", width), (f"{name}.bias", width)]


def _block(
    name: str, width: int, length: int, attention: list[tuple[str, int]]
) -> tuple[Layer, Layer]:
    """The attention and the two layers behind it. A token's work is that of the matrices, and of
    its products with the `length` tokens of its sequence."""
    tensors = [*attention, *_linear("out", width, width), *_norm("norm1", width)]
    attend = Layer(f"{name}.attention", tuple(tensors), 4 * width * width + 2 * length * width)
    tensors = [*_linear("up", width, 4 * width), *_linear("down", 4 * width, width)]
    feed = Layer(f"{name}.mlp", (*tensors, *_norm("norm2", width)), 8 * width * width)
    return attend, feed


def bert(width: int, blocks: int, words: int = 30522, length: int = 128) -> list[Layer]:
    """BERT with its pooler. The output shares the embedding of words, whose gradient is ready
    last."""
    tensors = [("words", words * width), ("positions", 512 * width), ("types", 2 * width)]
    layers = [Layer("embeddings", (*tensors, *_norm("norm", width)), 0.0)]
    for block in range(blocks):
        attention = [t for part in "qkv" for t in _linear(part, width, width)]
        layers += _block(f"block{block}", width, length, attention)
    layers.append(Layer("pooler", tuple(_linear("dense", width, width)), width * width / length))
    # Of 100 words 15 are predicted.
    layers.append(Layer("output", (), 0.15 * words * width))
    return layers


def gpt2(width: int, blocks: int, words: int = 50257, length: int = 1024) -> list[Layer]:
    """GPT-2. The output shares the embedding of words, whose gradient is ready last."""
    layers = [Layer("embeddings", (("words", words * width), ("positions", 1024 * width)), 0.0)]
    for block in range(blocks):
        attention = _linear("qkv", width, 3 * width)
        layers += _block(f"block{block}", width, length, attention)
    layers.append(Layer("norm", tuple(_norm("norm", width)), 0.0))
    layers.append(Layer("output", (), words * width))
    return layers
