"""Which parts of a strategy do not go together: DECIDES. What a framework or an optimizer cannot
do is refused where the strategy is applied."""

from __future__ import annotations

from hvdlite.adapter import factors
from hvdlite.adapter.factors import Mode
from hvdlite.adapter.strategy.choice import Choice
from hvdlite.adapter.strategy.known import compressor


def check(
    *,
    compression: Choice | None,
    local: Choice | None,
    large_batch: Choice | None,
    sufficient_factors: Mode,
    backward_passes_per_step: int,
) -> None:
    """A ValueError with the reason if two parts do not go together."""
    for beside, why_not in (
        (compression and f"compression={compression}",
         "compressions are for gradients, and local steps send weights. Leave one of them out; a "
         "larger local.every sends less, too"),
        (sufficient_factors and f"sufficient_factors={sufficient_factors!r}",
         "factors are a way of gradients, and local steps send weights. Leave one of them out"),
        (large_batch and f"large_batch={large_batch}",
         "its norms are those of the gradient of all ranks, and a local step has the gradient of "
         "one rank's small batch. Leave one of them out"),
        (backward_passes_per_step > 1 and f"backward_passes_per_step={backward_passes_per_step}",
         "local steps send nothing after a backward pass, so adding passes up saves nothing. "
         "Multiply local.every instead"),
    ):  # fmt: skip
        if local and beside:
            raise ValueError(f"local={local} is not possible with {beside}: {why_not}.")
    if sufficient_factors:
        sent = "" if compression is None else str(compressor(compression))
        factors.check(sent, None, False, backward_passes_per_step)
