"""Whether all ranks deal the same data. Pure.

Ranks whose data sets have different lengths would take different samples for the same, do
different numbers of steps, or wait for each other.
"""

from __future__ import annotations

from collections.abc import Sequence

#: What the ranks compare at the start of each epoch, and what to do where it differs.
FIELDS = {
    "length": "give each rank the whole data set, the same on all ranks",
    "batch_size": "give all ranks the same batch_size",
    "shuffle": "give all ranks the same shuffle",
    "rest": "give all ranks the same rest",
    "seed": "give all ranks the same seed",
    "epoch": "call set_epoch() with the same number on all ranks, or load the same state",
    "sample": "leave loops at the same step on all ranks, and load the same state",
}
_MOST = 4  # ranks that a sentence names


def difference(rows: Sequence[Sequence[int]]) -> str:
    """Of each rank the values of FIELDS. Returns a sentence about the first field that differs.

    It is empty if nothing does.
    """
    for place, (field, remedy) in enumerate(FIELDS.items()):
        ranks_of: dict[int, list[int]] = {}
        for rank, row in enumerate(rows):
            ranks_of.setdefault(row[place], []).append(rank)
        if len(ranks_of) > 1:
            said = ", ".join(f"{value} on {_ranks(ranks)}" for value, ranks in ranks_of.items())
            return f"the ranks share out different data: {field} is {said}; {remedy}"
    return ""


def _ranks(ranks: Sequence[int]) -> str:
    named = ", ".join(str(rank) for rank in ranks[:_MOST])
    more = f" and {len(ranks) - _MOST} more" if len(ranks) > _MOST else ""
    return f"rank{'s' if len(ranks) > 1 else ''} {named}{more}"
