"""What hvd.distributed(strategy=...) of JAX refuses."""

from __future__ import annotations

from typing import Any

import optax

import hvdlite.jax as hvd
from checks import check
from checks.here import Here, raises


@check()
def what_jax_does_not_have_is_refused(here: Here) -> None:
    def refused(words: str, **parts: Any) -> None:
        with raises(ValueError, words):
            hvd.distributed(optax.sgd(0.1), strategy=hvd.Strategy(**parts))

    refused("hvdlite.jax: an optax transformation cannot become", large_batch="lars")
    refused("hvdlite.jax: an optimizer has no hold on the layers", sufficient_factors="auto")
    refused("optax.MultiSteps", backward_passes_per_step=2)
    refused("compression.warmup_epochs of the strategy is not possible in hvdlite.jax",
            compression={"name": "dgc", "warmup_epochs": 2})  # fmt: skip
    refused("local.overlap of the strategy is not possible in hvdlite.jax: DiLoCo has no overlap",
            local={"name": "diloco", "overlap": 3})  # fmt: skip
    with raises(ValueError, "op=1 is not possible with local"):
        hvd.distributed(optax.sgd(0.1), op=hvd.Sum, strategy=hvd.Strategy(local={"every": 2}))
