"""Compression of gradients on their way.

`casts` has compressors without memory, and the class to derive others from. `methods` says what a
compressor with memory is; `topk`, `dgc` and `powersgd` are such, over the primitives of `algebra`.
`auto` chooses among them by what `probing` measures; `choosing` decides.
`journeys` carries their rounds over the ranks. `adapted` gives the rest of the adapter one form of
all of them, and `choices` is what programs see.
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
