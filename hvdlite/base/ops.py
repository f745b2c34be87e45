"""The reductions, with the numbers that csrc/base/ops.h and Horovod give them."""

from __future__ import annotations

import operator
import warnings

__all__ = ["Adasum", "Average", "Max", "Min", "Product", "Sum"]

Average, Sum, Adasum, Min, Max, Product = range(6)


def reduction_of(average: bool | None, op: int | None) -> int:
    """Returns the reduction that a call means; `average` is Horovod's older argument for it."""
    if average is not None:
        if op is not None:
            raise ValueError("op= and average= both name the reduction: pass op= alone")
        warnings.warn("average= is deprecated, use op=", DeprecationWarning, stacklevel=3)
        return Average if average else Sum
    if op is None:
        return Average
    # numpy's integers
    number = op if type(op) is int else operator.index(op) if hasattr(op, "__index__") else -1
    if not 0 <= number <= 5:
        raise ValueError(f"op={op!r} is not one of hvd.Average, Sum, Adasum, Min, Max, Product")
    return number
