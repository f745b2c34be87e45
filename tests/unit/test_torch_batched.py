"""Arithmetic on many gradients of torch at a time."""

from __future__ import annotations

import math

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from hvdlite.adapter.compression.methods import Momentum  # noqa: E402
from hvdlite.torch.compression import batched  # noqa: E402

LARGEST = torch.finfo(torch.float32).max


@pytest.mark.parametrize(
    ("gradients", "expected"),
    [
        ([[1.0, 2.0], [3.0]], True),
        ([[1.0, 2.0], [math.nan]], False),
        ([[1.0, math.inf], [3.0]], False),
        ([[math.inf, -math.inf], [3.0]], False),
        ([[LARGEST, LARGEST], [LARGEST]], True),
        ([[], [3.0]], True),
    ],
)
def test_nan_and_infinity_are_found_among_many_gradients(
    gradients: list[list[float]], expected: bool
) -> None:
    assert batched.are_finite([torch.tensor(each) for each in gradients]) is expected


def test_gradients_may_have_different_types_and_shapes() -> None:
    gradients = [
        torch.ones(3, dtype=torch.float64),
        torch.full((70, 1000), 60000.0, dtype=torch.float16),
        torch.ones(2, 2, dtype=torch.bfloat16).t(),
    ]
    assert batched.are_finite(gradients)
    gradients[2][0, 1] = math.inf
    assert not batched.are_finite(gradients)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("nesterov", [False, True])
def test_many_gradients_get_the_momentum_that_each_would_get(
    dtype: torch.dtype, nesterov: bool
) -> None:
    momentum = Momentum(0.9, nesterov)
    gradients = [torch.randn(shape).to(dtype) for shape in ((5,), (1, 2, 3), ())]
    velocities = [torch.randn(each.numel()) for each in gradients]
    before = [each.clone() for each in velocities]
    expected = [
        momentum.after(gradient.float().view(-1), velocity)
        for gradient, velocity in zip(gradients, velocities, strict=True)
    ]
    given = [each.clone() for each in gradients]
    new = batched.add_momentum(given, velocities, momentum)
    for i, (velocity, step) in enumerate(expected):
        assert torch.equal(velocities[i], before[i])
        torch.testing.assert_close(new[i], velocity)
        torch.testing.assert_close(given[i], step.view(given[i].shape).to(dtype))
