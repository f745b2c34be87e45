"""DiLoCo's outer optimizer: what becomes of the weights from which ranks started, when each has
moved away from them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

Tensor = Any


class Outer(Protocol):
    """An outer optimizer: a function of tensors of any framework."""

    def __call__(self, anchor: Tensor, gradient: Tensor, velocity: Tensor) -> tuple[Tensor, Tensor]:
        """The new anchor and the new velocity, as new tensors.

        `anchor`: the weights of the last average; `gradient`: how far the ranks have moved away
        from it, on average, with the sign of a gradient; `velocity`: zeros at first.
        """


@dataclass(frozen=True)
class OuterSGD:
    """SGD with momentum, as torch.optim.SGD computes it."""

    lr: float = 0.7
    momentum: float = 0.9
    nesterov: bool = True

    def __call__(self, anchor: Tensor, gradient: Tensor, velocity: Tensor) -> tuple[Tensor, Tensor]:
        """See Outer."""
        velocity = self.momentum * velocity + gradient
        step = gradient + self.momentum * velocity if self.nesterov else velocity
        return anchor - self.lr * step, velocity


def step(
    outer: Outer, anchor: Tensor, gradient: Tensor, velocity: Tensor, ops: Any
) -> tuple[Tensor, Tensor]:
    """The new anchor and the new velocity of a tensor. `ops`: torch, jax.numpy or keras.ops.

    If no rank has moved the tensor since the last average, both stay. Momentum would carry it on
    in each call of sync(), where ranks only want to be equal.
    """
    moved = ops.any(ops.not_equal(gradient, 0))
    new_anchor, new_velocity = outer(anchor, gradient, velocity)
    return ops.where(moved, new_anchor, anchor), ops.where(moved, new_velocity, velocity)


def check_outer(outer: Any) -> None:
    """A TypeError unless a program may pass this as `outer`."""
    if not callable(outer):
        raise TypeError(
            "outer must be hvd.OuterSGD(lr, momentum, nesterov) or a function of an anchor, a "
            f"gradient and a velocity, not {type(outer).__name__}"
        )
