"""What is measured: sizes of tensors, and the gradients of a ResNet-50."""

from __future__ import annotations

import math

SIZES = tuple(4**power for power in range(1, 14))  # 4 B, 16 B, ... 64 MiB
QUICK_SIZES = (4, 64 << 10, 1 << 20)
LIST = "resnet50"
WIDTH = {"float32": 4, "bfloat16": 2}

Shape = tuple[int, ...]


def resnet50() -> list[tuple[str, Shape]]:
    """The 161 trainable tensors of torchvision's resnet50, in its order: 25,557,032 numbers."""
    found: list[tuple[str, Shape]] = []

    def convolution(name: str, outputs: int, inputs: int, kernel: int) -> None:
        found.append((f"{name}.weight", (outputs, inputs, kernel, kernel)))

    def normalization(name: str, width: int) -> None:
        found.extend([(f"{name}.weight", (width,)), (f"{name}.bias", (width,))])

    convolution("conv1", 64, 3, 7)
    normalization("bn1", 64)
    inputs = 64
    for layer, (width, blocks) in enumerate([(64, 3), (128, 4), (256, 6), (512, 3)], 1):
        for block in range(blocks):
            name = f"layer{layer}.{block}"
            for part, (outputs, wide, kernel) in enumerate(
                [(width, inputs, 1), (width, width, 3), (4 * width, width, 1)], 1
            ):
                convolution(f"{name}.conv{part}", outputs, wide, kernel)
                normalization(f"{name}.bn{part}", outputs)
            if block == 0:
                convolution(f"{name}.downsample.0", 4 * width, inputs, 1)
                normalization(f"{name}.downsample.1", 4 * width)
            inputs = 4 * width
    found.extend([("fc.weight", (1000, 2048)), ("fc.bias", (1000,))])
    return found


def gpt2() -> list[tuple[str, Shape]]:
    """The 148 trainable tensors of the smallest GPT-2, its output sharing the words' embedding:
    124,439,808 numbers."""
    width = 768
    found: list[tuple[str, Shape]] = [("wte.weight", (50257, width)), ("wpe.weight", (1024, width))]

    def layer(name: str, *shape: int) -> None:
        found.extend([(f"{name}.weight", shape), (f"{name}.bias", shape[-1:])])

    for block in range(12):
        layer(f"h.{block}.ln_1", width)
        layer(f"h.{block}.attn.c_attn", width, 3 * width)
        layer(f"h.{block}.attn.c_proj", width, width)
        layer(f"h.{block}.ln_2", width)
        layer(f"h.{block}.mlp.c_fc", width, 4 * width)
        layer(f"h.{block}.mlp.c_proj", 4 * width, width)
    layer("ln_f", width)
    return found


def numbers(shape: Shape) -> int:
    return math.prod(shape)


def gradients() -> list[tuple[str, Shape]]:
    """In the order in which a backward pass produces them."""
    return resnet50()[::-1]


def small_gradients() -> list[tuple[str, Shape]]:
    """As many tensors, and next to nothing in them: what a call costs."""
    return [(name, (64,)) for name, _ in gradients()]


def gpt2_gradients() -> list[tuple[str, Shape]]:
    return gpt2()[::-1]


# What one step reduces, by the name of its row.
STEPS = {"step": gradients, "small step": small_gradients, "gpt2 step": gpt2_gradients}


def size_text(size: int) -> str:
    for unit, factor in (("MiB", 1 << 20), ("KiB", 1 << 10)):
        if size >= factor:
            return f"{size // factor} {unit}"
    return f"{size} B"
