"""Whether the factors of a weight's gradient travel instead of the gradient: DECIDES, knows
numbers, no tensors.

The gradient of a linear layer's weight is a product of two matrices with as many rows as the batch:
what has come into the layer, and the gradient of what has gone out. A rank that has the rows of all
ranks computes the sum of all gradients by one product (Poseidon: Zhang et al. 2017).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

Mode = bool | str | None  # what a program passes as `sufficient_factors`


class Weight(NamedTuple):
    label: str  # for people
    inputs: int
    outputs: int
    element: int  # bytes of a number of its gradient


class Seen(NamedTuple):
    """What a rank has seen of a weight in the first step. `dtype`: that of the factors; empty if
    this rank has computed none."""

    rows: int = 0
    dtype: str = ""
    element: int = 0  # bytes of a number of a factor
    problem: str = ""  # why the factors are not the whole gradient


NOTHING = Seen()


def checked(mode: Mode) -> Mode:
    """The mode, or a ValueError with a sentence."""
    if mode in (None, True, False, "auto"):
        return mode
    raise ValueError(f"sufficient_factors={mode!r} is not possible: expected True, False or 'auto'")


def check(compression: str, groups: Any, adasum: bool, passes: int) -> None:
    """A ValueError with a sentence if factors cannot travel beside these. `compression`: in words,
    empty if there is none."""
    for beside, why_not in (
        (compression, "a compression sends a part of each gradient, and factors are all of it"),
        (groups and f"groups={groups!r}", "a group's gradients travel together, factors alone"),
        (adasum and "op=hvd.Adasum", "factors give sums and averages only"),
        (passes > 1 and f"backward_passes_per_step={passes}",
         "the factors of one backward pass travel, not those of several"),
    ):  # fmt: skip
        if beside:
            raise ValueError(f"sufficient_factors is not possible with {beside}: {why_not}")


def bytes_of_allreduce(weight: Weight, ranks: int) -> float:
    """What a rank sends and receives for the gradient, by a ring."""
    return 4 * (ranks - 1) / ranks * weight.inputs * weight.outputs * weight.element


def bytes_of_factors(weight: Weight, rows: int, element: int, ranks: int) -> float:
    """The same for factors. `rows`: those of all ranks together."""
    return 2 * (ranks - 1) / ranks * rows * (weight.inputs + weight.outputs) * element


def pays(weight: Weight, rows: int, element: int, ranks: int) -> bool:
    """Whether factors are fewer bytes."""
    return bytes_of_factors(weight, rows, element, ranks) < bytes_of_allreduce(weight, ranks)


def chosen(
    mode: Mode, weights: Sequence[Weight], everyones: Sequence[Sequence[Seen]]
) -> dict[int, str]:
    """The weights whose factors travel from now on, by number, and the dtype of the factors.

    `everyones`: what each rank has seen of each weight, so that all ranks choose alike. A weight
    with a problem stays as it is, unless `mode` is True: that is a ValueError.
    """
    found = {}
    for number, weight in enumerate(weights):
        seen = [rank[number] for rank in everyones]
        problem = next((each.problem for each in seen if each.problem), "")
        if problem and mode is True:
            raise ValueError(
                f"sufficient_factors=True is not possible for '{weight.label}': {problem}. "
                "sufficient_factors='auto' leaves such weights out."
            )
        dtypes = {each.dtype for each in seen}
        if problem or len(dtypes) > 1 or "" in dtypes:
            continue
        rows, element = sum(each.rows for each in seen), seen[0].element
        if mode is True or pays(weight, rows, element, len(everyones)):
            found[number] = seen[0].dtype
    return found
