"""Compression of gradients.

A compressor with memory is a Method. It gives each tensor a Part, whose rounds say what the ranks
exchange. The reducers run these rounds, one tensor at a time or all together.

    methods     START HERE: Method, Part and the kinds of rounds
    rounds      carries rounds over the ranks; ask() starts one
    topk        sends the largest elements
    dgc         the same, with momentum
    powersgd    sends two narrow matrices
    codecs      sends fewer bits for a number: int8, fp8, sign, ternary, qsgd, threshold
    auto        measures the network and chooses a compressor for each tensor; a cast is one of them
    choosing    DECIDES what auto takes
    algebra     the primitives that a framework brings
    on_numpy    those of numpy
    casts       compressors without memory, and the class to derive others from
    compressor  any compressor in the form that the reducers use
    choices     hvd.Compression
"""

from hvdlite.adapter.compression.casts import Cast, Compressor, Nothing, as_class
from hvdlite.adapter.compression.choices import choices
from hvdlite.adapter.compression.compressor import CompressionAdapter, HasCompression, compressed
from hvdlite.adapter.compression.methods import Method
from hvdlite.adapter.compression.rounds import compressed_allreduce

__all__ = [
    "Cast", "CompressionAdapter", "Compressor", "HasCompression", "Method", "Nothing", "as_class",
    "choices", "compressed", "compressed_allreduce",
]  # fmt: skip
