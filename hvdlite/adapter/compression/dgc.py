"""Deep gradient compression: top-k, whose memory is that of momentum."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from hvdlite.adapter.compression.algebra import Algebra, Array
from hvdlite.adapter.compression.methods import (
    DENSE,
    DenseMomentum,
    Largest,
    Method,
    Momentum,
    Part,
    Rounds,
    State,
    check_fraction,
    share_of,
)
from hvdlite.adapter.compression.topk import send_largest


class DGC(Method):
    """Lin et al. 2017, with the momentum of SGD: the optimizer must have none.

    `clip`: the largest norm of one tensor's gradient, for all ranks together; each rank clips to
    clip / sqrt(ranks). `warmup_epochs`: over so many epochs the density falls from near 1 to
    `density`; on_epoch() says which epoch begins. `masking`: an element that is sent loses its
    momentum.
    """

    def __init__(
        self,
        algebra: Callable[[], Algebra],
        density: float = 0.001,
        momentum: float = 0.9,
        nesterov: bool = False,
        clip: float | None = None,
        warmup_epochs: int = 0,
        masking: bool = True,
        skip: str | Sequence[str] = (),
    ) -> None:
        super().__init__(algebra, skip)
        self.density = check_fraction("density", density)
        if not 0.0 <= momentum < 1.0:
            raise ValueError(f"momentum={momentum} is not possible: it must be 0 or more, below 1")
        if clip is not None and not clip > 0.0:
            raise ValueError(f"clip={clip} is not possible: a norm is above 0")
        if warmup_epochs < 0:
            raise ValueError(f"warmup_epochs={warmup_epochs} is not possible: 0 means none")
        self.momentum = float(momentum)
        self.warmup_epochs = warmup_epochs
        self._velocity = _Velocity(Momentum(self.momentum, nesterov), clip)
        self._dense: Part = DENSE
        if clip is not None:
            self._dense = _Clipped(self._velocity)
        elif self.momentum:
            self._dense = DenseMomentum(self._velocity.momentum)
        self._masking = masking
        self._epoch = 0

    def on_epoch(self, epoch: int) -> None:
        """From now on the density is that of this epoch, counted from 0."""
        self._epoch = epoch

    def density_now(self) -> float:
        """The density of the present epoch."""
        if self._epoch >= self.warmup_epochs:
            return self.density
        return float(self.density ** ((self._epoch + 1) / (self.warmup_epochs + 1)))

    def state_dict(self) -> dict[str, Any]:
        """With the epoch, by which the density goes."""
        return {**super().state_dict(), "epoch": self._epoch}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """The reverse. Older checkpoints have no epoch."""
        super().load_state_dict(state)
        self._epoch = state.get("epoch", self._epoch)

    def changes(self) -> str:
        return f"warmup_epochs={self.warmup_epochs}" if self.warmup_epochs else ""

    def compressing(self, shape: Sequence[int]) -> Part:
        return _Corrected(self._velocity, self.density_now(), self._masking)

    def dense(self) -> Part:
        """With momentum, because the optimizer has none."""
        return self._dense

    def __repr__(self) -> str:
        warmup = f", warmup_epochs={self.warmup_epochs}" if self.warmup_epochs else ""
        return f"dgc(density={self.density:g}, momentum={self.momentum:g}{warmup})"


class _Velocity:
    """Momentum on one rank, of a gradient that is clipped before."""

    def __init__(self, momentum: Momentum, clip: float | None) -> None:
        self.momentum = momentum
        self._clip = clip

    def clipped(self, algebra: Algebra, flat: Array, ranks: int) -> Array:
        if self._clip is None:
            return flat
        norm = algebra.root(algebra.total(flat * flat))
        bound = self._clip * float(ranks) ** -0.5
        return flat * algebra.least(bound / (norm + 1e-12), 1.0)


class _Corrected(Part):
    """The momentum of a sparse tensor: steps add up until they are sent."""

    guarded = False  # the rounds guard the memory themselves

    def __init__(self, velocity: _Velocity, density: float, masking: bool) -> None:
        self._velocity = velocity
        self._density = density
        self._masking = masking

    def begin(self, algebra: Algebra, flat: Array) -> State:
        return {key: algebra.zeros(flat.shape, flat) for key in ("velocity", "residual")}

    def rounds(self, algebra: Algebra, flat: Array, state: State, ranks: int) -> Rounds:
        gradient = self._velocity.clipped(algebra, flat, ranks)
        count = share_of(algebra, flat, self._density)
        asked = Largest(gradient, state, count, self._velocity.momentum, self._masking)
        return send_largest(algebra, asked, ranks)


class _Clipped(Part):
    """Momentum of a dense tensor whose gradient is clipped before."""

    def __init__(self, velocity: _Velocity) -> None:
        self._velocity = velocity
        self._dense = DenseMomentum(velocity.momentum)

    def begin(self, algebra: Algebra, flat: Array) -> State:
        return self._dense.begin(algebra, flat)

    def rounds(self, algebra: Algebra, flat: Array, state: State, ranks: int) -> Rounds:
        gradient = self._velocity.clipped(algebra, flat, ranks)
        return self._dense.rounds(algebra, gradient, state, ranks)
