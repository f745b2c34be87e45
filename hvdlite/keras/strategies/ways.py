"""What Keras has for the parts of a hvd.Strategy."""

from __future__ import annotations

from typing import Any

from hvdlite.adapter.strategy import NO_LAYERS, Ways
from hvdlite.adapter.strategy.choice import Choice
from hvdlite.adapter.strategy.large_batch import Place, taker
from hvdlite.keras.compression import Compression
from hvdlite.keras.flavour import KERAS
from hvdlite.keras.strategies.lars import LARS
from hvdlite.keras.strategies.local_steps import DiLoCo, LocalSGD
from hvdlite.keras.wrapping import refuse_twice


def _large_batch(optimizer: Any, choice: Choice) -> Any:
    refuse_twice(optimizer)
    known = KERAS.optimizers
    places = {"lars": Place(LARS, (known.SGD,), ())}
    if hasattr(known, "Lamb"):
        places["lamb"] = Place(known.Lamb, (known.Adam, known.AdamW), ("amsgrad",))
    config = optimizer.get_config()
    kind = taker(
        choice, optimizer, places, [config], has_trained=getattr(optimizer, "built", False)
    )
    config = {name: value for name, value in config.items() if name not in ("name", "amsgrad")}
    if choice.name == "lars":  # which has its own weight decay
        config["weight_decay"] = config["weight_decay"] or 0.0
    return kind.from_config({**config, **dict(choice.options)})


WAYS = Ways(
    "hvdlite.keras",
    Compression,
    {"local_sgd": LocalSGD, "diloco": DiLoCo},
    _large_batch,
    lacking={"sufficient_factors": NO_LAYERS},
)
