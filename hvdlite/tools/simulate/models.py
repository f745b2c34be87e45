"""The table of models as lists of layers, computed from their architectures. Pure."""

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


def parameters(layers: Sequence[Layer]) -> int:
    """How many numbers a model has."""
    return sum(count for layer in layers for _, count in layer.tensors)


# Convolutional networks: torchvision's parameters, with 224 x 224 images (Inception: 299 x 299).

Pair = tuple[int, int]


class _Network:
    """Adds layers and keeps the width of the image."""

    def __init__(self, image: int, channels: int = 3) -> None:
        self.layers: list[Layer] = []
        self.image = image
        self.channels = channels

    def convolution(
        self,
        outputs: int,
        kernel: int | Pair,
        *,
        stride: int = 1,
        padded: bool = True,
        inputs: int | None = None,
        bias: bool = False,
        normalized: bool = True,
    ) -> int:
        """Returns the number of its outputs. With `inputs` it is a branch: it leaves the network's
        channels and image as they are."""
        high, wide = (kernel, kernel) if isinstance(kernel, int) else kernel
        image = self.image if padded else self.image - max(high, wide) + 1
        image = -(-image // stride)
        taken = self.channels if inputs is None else inputs
        weights = outputs * taken * high * wide
        tensors = [("weight", weights)]
        if bias:
            tensors.append(("bias", outputs))
        if normalized:
            tensors += [("norm.weight", outputs), ("norm.bias", outputs)]
        name = f"conv{len(self.layers)}"
        self.layers.append(Layer(name, tuple(tensors), weights * image * image))
        if inputs is None:
            self.channels, self.image = outputs, image
        return outputs

    def chain(self, inputs: int, *steps: tuple[int, int | Pair]) -> int:
        """A branch of convolutions one after another: outputs and kernel of each."""
        for outputs, kernel in steps:
            inputs = self.convolution(outputs, kernel, inputs=inputs)
        return inputs

    def pool(self, image: int) -> None:
        self.image = image

    def linear(self, outputs: int, inputs: int) -> None:
        weights = outputs * inputs
        tensors = (("weight", weights), ("bias", outputs))
        self.layers.append(Layer(f"fc{len(self.layers)}", tensors, weights))


def resnet(blocks: Sequence[int]) -> list[Layer]:
    """ResNet with bottlenecks, so many in each stage."""
    net = _Network(224)
    net.convolution(64, 7, stride=2)
    net.pool(56)
    for stage, count in enumerate(blocks):
        width = 64 << stage
        for block in range(count):
            stride = 2 if block == 0 and stage > 0 else 1
            inputs, image = net.channels, net.image
            net.convolution(width, 1)
            net.convolution(width, 3, stride=stride)
            net.convolution(4 * width, 1)
            if block == 0:
                after = net.image
                net.image = image
                net.convolution(4 * width, 1, stride=stride, inputs=inputs)
                net.image = after
    net.linear(1000, net.channels)
    return net.layers


def vgg16() -> list[Layer]:
    net = _Network(224)
    for width, count in ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3)):
        for _ in range(count):
            net.convolution(width, 3, bias=True, normalized=False)
        net.pool(net.image // 2)
    net.linear(4096, 512 * 7 * 7)
    net.linear(4096, 4096)
    net.linear(1000, 4096)
    return net.layers


def inception_v3() -> list[Layer]:
    """Without the auxiliary classifier."""
    net = _Network(299)
    net.convolution(32, 3, stride=2, padded=False)
    net.convolution(32, 3, padded=False)
    net.convolution(64, 3)
    net.pool(73)
    net.convolution(80, 1)
    net.convolution(192, 3, padded=False)
    net.pool(35)
    for pooled in (32, 64, 64):
        _inception_a(net, pooled)
    _inception_b(net)
    for width in (128, 160, 160, 192):
        _inception_c(net, width)
    _inception_d(net)
    for _ in range(2):
        _inception_e(net)
    net.linear(1000, net.channels)
    return net.layers


def _inception_a(net: _Network, pooled: int) -> None:
    inputs = net.channels
    net.channels = (
        net.chain(inputs, (64, 1))
        + net.chain(inputs, (48, 1), (64, 5))
        + net.chain(inputs, (64, 1), (96, 3), (96, 3))
        + net.chain(inputs, (pooled, 1))
    )


def _inception_b(net: _Network) -> None:
    inputs = net.channels
    once = net.convolution(384, 3, stride=2, padded=False, inputs=inputs)
    before = net.chain(inputs, (64, 1), (96, 3))
    twice = net.convolution(96, 3, stride=2, padded=False, inputs=before)
    net.channels = inputs + once + twice
    net.pool(17)


def _inception_c(net: _Network, width: int) -> None:
    inputs = net.channels
    flat, tall = (1, 7), (7, 1)
    net.channels = (
        net.chain(inputs, (192, 1))
        + net.chain(inputs, (width, 1), (width, flat), (192, tall))
        + net.chain(inputs, (width, 1), (width, tall), (width, flat), (width, tall), (192, flat))
        + net.chain(inputs, (192, 1))
    )


def _inception_d(net: _Network) -> None:
    inputs = net.channels
    before = net.chain(inputs, (192, 1))
    once = net.convolution(320, 3, stride=2, padded=False, inputs=before)
    before = net.chain(inputs, (192, 1), (192, (1, 7)), (192, (7, 1)))
    twice = net.convolution(192, 3, stride=2, padded=False, inputs=before)
    net.channels = inputs + once + twice
    net.pool(8)


def _inception_e(net: _Network) -> None:
    inputs = net.channels
    outputs = net.chain(inputs, (320, 1))
    for start in (((384, 1),), ((448, 1), (384, 3))):
        middle = net.chain(inputs, *start)
        outputs += net.chain(middle, (384, (1, 3))) + net.chain(middle, (384, (3, 1)))
    net.channels = outputs + net.chain(inputs, (192, 1))


# Transformers.


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


# In forward order.
MODELS: dict[str, Callable[[], list[Layer]]] = {
    "resnet50": lambda: resnet((3, 4, 6, 3)),
    "resnet101": lambda: resnet((3, 4, 23, 3)),
    "inception_v3": inception_v3,
    "vgg16": vgg16,
    "bert-base": lambda: bert(width=768, blocks=12),
    "bert-large": lambda: bert(width=1024, blocks=24),
    "gpt2-small": lambda: gpt2(width=768, blocks=12),
}
