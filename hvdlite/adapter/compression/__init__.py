"""Compression of gradients on their way.

`casts` has compressors without memory, and the class to derive others from. `methods` says what a
compressor with memory is; `topk`, `dgc` and `powersgd` are such, over the primitives of `algebra`.
`auto` chooses among them by what `probing` measures; `choosing` decides.
`journeys` carries their rounds over the ranks. `settled` gives the rest of the adapter one form of
all of them, and `choices` is what programs see.
"""

from hvdlite.adapter.compression.casts import Cast, Compressor, Nothing, as_class
from hvdlite.adapter.compression.choices import choices
from hvdlite.adapter.compression.compressor import HasCompression, Settled, compressed
from hvdlite.adapter.compression.methods import Method
from hvdlite.adapter.compression.rounds import travelled

__all__ = [
    "Cast", "Compressor", "HasCompression", "Method", "Nothing", "Settled", "as_class", "choices",
    "compressed", "travelled",
]  # fmt: skip
