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

    no_tensors = (None, "text", object(), {1: 2}, b"bytes")
    dtype_error = (TypeError, "float32")

    def wrong_dtypes(self) -> list[Any]:
        odd = [np.ones(2, np.longdouble)] if np.dtype(np.longdouble).itemsize > 8 else []
        day, record = np.array(["2020-01-01"], "datetime64[D]"), np.zeros(2, [("a", np.int32)])
        texts, objects = np.array(["text"]), np.array([object()])
        return [
            np.ones(2, np.complex64),
            texts,
            objects,
            day,
            np.ones(2, ">f4"),
            record,
            np.zeros(2, "V2"),
            *odd,
        ]

    def wrong_splits(self, size: int) -> list[Any]:
        return [[1.0] * size, [[1] * size], np.ones((size, 1), np.int32), "a" * size]


API = NumpyApi()
