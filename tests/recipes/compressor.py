"""rowmeans: a matrix travels as the mean of each of its rows, and the rest is remembered."""

from __future__ import annotations

from recipes import Insert, Limits, New, Several

CODE = '''"""Row means: a matrix travels as the mean of each of its rows."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from hvdlite.adapter.compression.algebra import Algebra, Array
from hvdlite.adapter.compression.methods import Method, Part, Rounds, State, Sum


class RowMeans(Method):
    """With error feedback."""

    def compressing(self, shape: Sequence[int]) -> Part:
        return _Means((int(shape[0]), math.prod(int(length) for length in shape[1:])))


class _Means(Part):
    def __init__(self, matrix: tuple[int, int]) -> None:
        self._matrix = matrix

    def begin(self, algebra: Algebra, flat: Array) -> State:
        return {"residual": algebra.zeros(flat.shape, flat)}

    def rounds(self, algebra: Algebra, flat: Array, state: State, ranks: int) -> Rounds:
        columns = self._matrix[1]
        ones = algebra.constant(np.ones((columns, 1), np.float32), flat)
        due = algebra.reshaped(flat + state["residual"], self._matrix)
        mine = algebra.product(due, ones) * (1.0 / columns)
        total = yield Sum(mine)
        row = algebra.transposed(ones)
        residual = algebra.reshaped(due - algebra.product(mine, row), flat.shape)
        return algebra.reshaped(algebra.product(total, row), flat.shape), {"residual": residual}
'''

_PACKAGE = "hvdlite/adapter/compression"
_CHOICES = f"{_PACKAGE}/choices.py"
_UNIT = "tests/unit/test_compression_methods.py"
_PAGE = "docs/guides/compression.md"

CHANGES = (
    New(f"{_PACKAGE}/rowmeans.py", CODE),
    Several((
        Insert(
            _CHOICES,
            "from hvdlite.adapter.compression.powersgd import PowerSGD\n",
            "from hvdlite.adapter.compression.rowmeans import RowMeans\n",
        ),
        Insert(_CHOICES, '    "powersgd": PowerSGD,\n', '    "rowmeans": RowMeans,\n'),
        Insert(_CHOICES, "    `powersgd(rank)`, ", "`rowmeans()`, "),
    )),
    Insert(
        f"{_PACKAGE}/__init__.py",
        "    powersgd    sends two narrow matrices\n",
        "    rowmeans    sends the mean of each row\n",
    ),
    Several((
        Insert(
            _UNIT,
            "from hvdlite.adapter.compression.rounds import finish\n",
            "from hvdlite.adapter.compression.rowmeans import RowMeans\n",
        ),
        Insert(_UNIT, "        lambda: PowerSGD(numpys, 2, warm_start=False),\n",
               "        lambda: RowMeans(numpys),\n"),
        Insert(_UNIT, '    ids=["topk", "dgc", "powersgd", "powersgd-cold"', ', "rowmeans"'),
    )),
    Insert(
        "tests/conformance/checks/compressors.py",
        '    "powersgd": lambda: hvd.Compression.powersgd(1),\n',
        '    "rowmeans": lambda: hvd.Compression.rowmeans(),\n',
    ),
    Several((
        Insert(
            _PAGE,
            "any gradient | what was left out, and the last factor | many ranks, large matrices |"
            "\n",
            "| `rowmeans()` | the mean of each row | what was left out | an example |\n",
        ),
        Insert(
            _PAGE,
            "## The compressions\n\n",
            "`rowmeans(skip=())`\n:   The mean of each row of a matrix.\n\n",
        ),
    )),
    Limits('    "hvdlite.adapter.compression.rowmeans",  # a compressor is a file\n'),
    Insert("CHANGELOG.md", "## Unreleased\n\n", "- `hvd.Compression.rowmeans()` is new.\n"),
)  # fmt: skip
