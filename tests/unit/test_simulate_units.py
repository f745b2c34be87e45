"""hvdlite.tools.simulate: quantities with units, and the table of models."""

from __future__ import annotations

import pytest

from hvdlite.tools.simulate import models, units
from hvdlite.tools.simulate.models import parameters


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("25us", 25e-6), ("25µs", 25e-6), ("0.25s", 0.25), ("1e-3s", 1e-3), ("3 ms", 3e-3)],
)
def test_times(text: str, seconds: float) -> None:
    assert units.seconds(text) == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("text", "rate"),
    [
        ("10Gbit", 1.25e9),
        ("10Gbit/s", 1.25e9),
        ("200 Mbit", 25e6),
        ("1.2GB", 1.2e9),
        ("1GiB/s", 2.0**30),
        ("8bit", 1.0),
    ],
)
def test_bandwidths(text: str, rate: float) -> None:
    assert units.bytes_per_second(text) == pytest.approx(rate)


@pytest.mark.parametrize("text", ["10", "fast", "", "10Gb", "-1s"])
def test_a_quantity_without_a_known_unit_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="25us|10Gbit|unit"):
        units.seconds(text)
    with pytest.raises(ValueError, match="10Gbit"):
        units.bytes_per_second(text)


def test_texts() -> None:
    assert units.bandwidth_text(1.25e9) == "10 Gbit"
    assert units.bandwidth_text(25e6) == "200 Mbit"
    assert units.time_text(0.1234) == "123 ms"
    assert units.time_text(2e-6) == "2 us"
    assert units.size_text(102_228_128) == "102 MB"


@pytest.mark.parametrize(
    ("name", "numbers", "tensors"),
    [
        ("resnet50", 25_557_032, 161),
        ("resnet101", 44_549_160, 314),
        ("inception_v3", 23_834_568, 284),
        ("vgg16", 138_357_544, 32),
        ("bert-base", 109_482_240, 199),
        ("bert-large", 335_141_888, 391),
        ("gpt2-small", 124_439_808, 148),
    ],
)
def test_models_have_the_published_number_of_parameters(
    name: str, numbers: int, tensors: int
) -> None:
    layers = models.MODELS[name]()
    assert parameters(layers) == numbers
    assert sum(len(layer.tensors) for layer in layers) == tensors


@pytest.mark.parametrize(
    ("name", "billions"),
    [("resnet50", 4.09), ("resnet101", 7.80), ("inception_v3", 5.71), ("vgg16", 15.5)],
)
def test_convolutional_models_have_the_published_arithmetic(name: str, billions: float) -> None:
    work = sum(layer.work for layer in models.MODELS[name]())
    assert work / 1e9 == pytest.approx(billions, rel=0.01)
