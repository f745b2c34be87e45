"""What JAX has for the parts of a hvd.Strategy."""

from __future__ import annotations

from hvdlite.adapter.strategy import NO_LAYERS, Ways
from hvdlite.jax.compression import Compression
from hvdlite.jax.strategies.local_steps import DiLoCo, LocalSGD

WAYS = Ways(
    "hvdlite.jax",
    Compression,
    {"local_sgd": LocalSGD, "diloco": DiLoCo},
    lacking={
        "sufficient_factors": NO_LAYERS,
        "large_batch": "an optax transformation cannot become another one. Write "
        "hvd.distributed(optax.lars(...)) or optax.lamb instead",
        "backward_passes_per_step": "put accumulation outside, as "
        "optax.MultiSteps(hvd.distributed(...), every_k_schedule=4)",
    },
    tells_epochs=False,
)
