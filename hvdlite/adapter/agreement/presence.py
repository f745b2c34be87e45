"""Which gradients the ranks have in a step, and of which kind: DECIDES, knows numbers, no tensors.

Each rank sends two numbers for every parameter of its optimizer, frozen ones too. All ranks receive
the maximum of each number. So they come to the same verdict, and a rank that lacks a gradient knows
what to put in its place.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

# The first number.
FROZEN, LACKING, DENSE = range(3)
# The second: how many dimensions of the gradient are sparse, none if it is dense or lacking, or
# this.
SOMEWHERE_FROZEN = 255

Said = tuple[int, int]
_KINDS = {(FROZEN, SOMEWHERE_FROZEN): "frozen", (LACKING, 0): "lacking", (DENSE, 0): "dense"}


@dataclass(frozen=True)
class Verdict:
    """What all ranks know of a step."""

    trained_differently: list[int]  # parameters that are frozen on some ranks and not on others
    # parameters with a dense gradient on some ranks and a sparse one on others
    of_both_kinds: list[int]


def words(
    parameters: int, trained: Collection[int], lacking: Collection[int], sparse: Mapping[int, int]
) -> list[int]:
    """What a rank says: all first numbers, then all second ones. `sparse`: how many dimensions are,
    of which gradient."""
    first, second = [FROZEN] * parameters, [SOMEWHERE_FROZEN] * parameters
    for number in trained:
        first[number] = LACKING if number in lacking or number in sparse else DENSE
        second[number] = (
            0 if number in lacking else min(sparse.get(number, 0), SOMEWHERE_FROZEN - 1)
        )
    return [*first, *second]


def said_of(number: int, heard: Sequence[int]) -> Said:
    return heard[number], heard[number + len(heard) // 2]


def verdict(heard: Sequence[int]) -> Verdict:
    found = Verdict([], [])
    for number in range(len(heard) // 2):
        first, second = said_of(number, heard)
        if second == SOMEWHERE_FROZEN:
            if first != FROZEN:
                found.trained_differently.append(number)
        elif second and first == DENSE:
            found.of_both_kinds.append(number)
    return found


def kind(said: Said) -> str:
    """frozen, lacking, dense or sparse."""
    return _KINDS.get(said, "sparse")


def sentence(label: str, others: int, kinds: Mapping[int, str]) -> str:
    """A disagreement in words. `others`: how many more parameters there are; `kinds`: of each
    rank."""
    more = f" (and of {others} more)" if others else ""
    if "frozen" in kinds.values():
        frozen = in_words([rank for rank, kind in kinds.items() if kind == "frozen"])
        trained = in_words([rank for rank, kind in kinds.items() if kind != "frozen"])
        return (
            f"requires_grad of parameter '{label}'{more} is False on {frozen} and True on "
            f"{trained}. Freeze and thaw parameters on all ranks, between the same steps."
        )
    dense = in_words([rank for rank, kind in kinds.items() if kind == "dense"])
    sparse = in_words([rank for rank, kind in kinds.items() if kind == "sparse"])
    return (
        f"The gradient of parameter '{label}'{more} is dense on {dense} and sparse on {sparse} in "
        "this step. hvd.DistributedOptimizer(..., sparse_as_dense=True) reduces both alike."
    )


def in_words(ranks: Sequence[int]) -> str:
    """The ranks, for people."""
    if len(ranks) == 1:
        return f"rank {ranks[0]}"
    return f"ranks {', '.join(map(str, ranks[:-1]))} and {ranks[-1]}"
