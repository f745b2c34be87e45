"""What DistributedOptimizer cannot do with Keras."""

from __future__ import annotations

from hvdlite.adapter.step import Options
from hvdlite.base.ops import Average, Sum
from hvdlite.job.basics import is_initialized, size


def check(options: Options) -> None:
    """A ValueError with a sentence for what cannot be."""
    if not is_initialized():
        size()  # says that hvd.init() is missing
    if options.op not in (Average, Sum):
        raise ValueError(
            f"op={options.op} is not possible in a Keras optimizer, only hvd.Average and hvd.Sum: for Adasum use hvdlite.torch, or hvd.allreduce"
        )
    if options.compression.communicate is not None:
        raise ValueError(
            "a compressor with communicate() sends by its own means, which a compiled Keras step cannot: "
            "leave communicate() out, or train with hvdlite.torch"
        )
