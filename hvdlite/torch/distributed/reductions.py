"""What torch's options of a collective mean for hvdlite."""

from __future__ import annotations

from typing import Any

from torch import distributed as dist

from hvdlite.base.ops import Average, Max, Min, Product, Sum

_ReduceOp: Any = dist.ReduceOp  # type: ignore[attr-defined]
_KNOWN = (
    (_ReduceOp.SUM, Sum),
    (_ReduceOp.AVG, Average),
    (_ReduceOp.MAX, Max),
    (_ReduceOp.MIN, Min),
    (_ReduceOp.PRODUCT, Product),
)


def reduction_of(options: Any) -> int:
    """hvdlite's number of a reduction. `options`: torch's options, a ReduceOp, or None for a sum.

    Raises NotImplementedError for a reduction that hvdlite does not have.
    """
    if options is None:
        return Sum
    asked = getattr(options, "reduceOp", options)
    for theirs, ours in _KNOWN:
        if asked == theirs:
            return ours
    raise NotImplementedError(
        f"the backend hvdlite does not have the reduction {_name(asked)}, only SUM, AVG, MIN, MAX "
        'and PRODUCT. A group of gloo has the others: torch.distributed.new_group(backend="gloo").'
    )


def blocks(options: Any) -> bool:
    """Whether the caller waits for the result at once. torch before 2.6 does not say it."""
    return options is not None and not getattr(options, "asyncOp", True)


def _name(asked: Any) -> str:
    names = ("BAND", "BOR", "BXOR", "PREMUL_SUM")
    return next((name for name in names if asked == getattr(_ReduceOp, name, None)), str(asked))
