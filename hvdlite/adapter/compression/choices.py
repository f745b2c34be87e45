"""hvd.Compression: what a program chooses from."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from hvdlite.adapter.compression import codecs
from hvdlite.adapter.compression.algebra import Algebra
from hvdlite.adapter.compression.auto import Auto
from hvdlite.adapter.compression.casts import Cast, Compressor
from hvdlite.adapter.compression.dgc import DGC
from hvdlite.adapter.compression.powersgd import PowerSGD
from hvdlite.adapter.compression.topk import TopK
from hvdlite.core.framework import DifferentiableFramework

#: the methods with a memory, by the names that programs call
METHODS: dict[str, Callable[..., Any]] = {
    "topk": TopK,
    "dgc": DGC,
    "powersgd": PowerSGD,
    "int8": codecs.int8,
    "fp8": codecs.fp8,
    "sign": codecs.sign,
    "ternary": codecs.ternary,
    "qsgd": codecs.qsgd,
    "threshold": codecs.threshold,
    "auto": Auto,
}


def choices(
    framework: DifferentiableFramework,
    float16: Any,
    bfloat16: Any,
    algebra: Callable[[], Algebra] | None = None,
) -> Any:
    """hvd.Compression: how gradients are compressed.

    `none` sends them as they are, `fp16` and `bf16` floating-point tensors in these types. bfloat16
    has float32's range, and less precision. `topk(density)`, `dgc(density, momentum, ...)`,
    `powersgd(rank)`, `int8()`, `fp8()`, `sign()`, `ternary(clip)`, `qsgd(levels)` and
    `threshold(t)` send a small part of each matrix and remember the rest: make one for each
    optimizer. `auto(candidates)` takes one of these where it makes steps shorter. See
    docs/guides/compression.md.
    """
    known: dict[str, Any] = {
        "none": Compressor(),
        "fp16": Cast(framework, float16),
        "bf16": Cast(framework, bfloat16),
    }
    if algebra is not None:
        known |= {name: partial(kind, algebra) for name, kind in METHODS.items()}
    return type("Compression", (), {"__doc__": choices.__doc__, **known})
