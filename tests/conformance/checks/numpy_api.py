"""Arrays of numpy, by the framework-free module."""

from __future__ import annotations

from typing import Any

import numpy as np

import hvdlite
from checks.api import HandleApi
from checks.here import OPS


class NumpyApi(HandleApi):
    hvd = hvdlite
    scatters = tuple(OPS)

    def tensor(self, array: np.ndarray) -> np.ndarray:
        return np.array(array, order="C")

    def array(self, tensor: Any) -> np.ndarray:
        assert isinstance(tensor, np.ndarray), f"got a {type(tensor).__name__}"
        assert tensor.flags.writeable
        return tensor

    def splits(self, rows: list[int]) -> list[Any]:
        return [rows, tuple(rows), np.array(rows, np.int32), np.array(rows, np.int64)]


API = NumpyApi()
