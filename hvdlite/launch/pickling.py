"""Functions as bytes that another interpreter can load."""

from __future__ import annotations

import io
from collections import ChainMap
from types import CodeType
from typing import Any

import cloudpickle

_WITHOUT_FILE = "<dynamic-code>"  # cloudpickle's name for the file of every function since 3.1.3


def _with_file(code: CodeType) -> tuple[Any, ...]:
    make, parts, *rest = cloudpickle.Pickler.dispatch_table[CodeType](code)
    return (
        make,
        tuple(code.co_filename if part == _WITHOUT_FILE else part for part in parts),
        *rest,
    )


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc]
    """Keeps the name of a function's file, so a traceback of a rank shows its lines."""

    dispatch_table = ChainMap({CodeType: _with_file}, cloudpickle.Pickler.dispatch_table)


def dumps(value: Any) -> bytes:
    """Like cloudpickle.dumps()."""
    buffer = io.BytesIO()
    _Pickler(buffer).dump(value)
    return buffer.getvalue()
