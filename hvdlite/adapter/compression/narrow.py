"""A cast (hvd.Compression.fp16, bf16) in the form that hvd.Compression.auto chooses from."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from hvdlite.adapter.compression.algebra import Algebra, Array
from hvdlite.adapter.compression.casts import Cast
from hvdlite.adapter.compression.methods import Method, Part, Rounds, State, Sum


class Narrow(Method):
    """Without memory."""

    def __init__(self, algebra: Callable[[], Algebra], cast: Cast) -> None:
        super().__init__(algebra)
        self._cast = cast

    def compressing(self, shape: Sequence[int]) -> Part:
        return _Narrow(self._cast.compress, self._cast.decompress)

    def probe(self, shape: Sequence[int]) -> Part:
        """numpy has no bfloat16; float16 is as long."""
        return _Narrow(lambda array: (array.astype(np.float16), array.dtype), np.ndarray.astype)

    def __repr__(self) -> str:
        return str(self._cast)


class _Narrow:
    def __init__(
        self, narrow: Callable[[Array], tuple[Array, object]], widen: Callable[..., Array]
    ) -> None:
        self._narrow = narrow
        self._widen = widen

    def begin(self, algebra: Algebra, flat: Array) -> State:
        return {}

    def rounds(self, algebra: Algebra, flat: Array, state: State, ranks: int) -> Rounds:
        narrow, context = self._narrow(flat)
        total = yield Sum(narrow)
        return self._widen(total, context), state
