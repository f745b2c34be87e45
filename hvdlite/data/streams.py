"""Shares out examples that come one after another, and of which all ranks read the same. Pure.

Of each group of as many examples as there are ranks, each rank gets one. All ranks see where the
stream ends, so they get equally many without asking each other.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TypeVar

Example = TypeVar("Example")


def dealt(
    examples: Iterable[Example], rank: int, size: int, rest: str, done: int = 0
) -> Iterator[Example]:
    """This rank's examples, without the first `done`, which all ranks have had before.

    `rest="pad"`: the last group is filled up with the first examples of the stream.
    """
    stream = iter(examples)
    first = list(islice(stream, size))
    stream = _behind(first, stream)
    for _ in islice(stream, done):
        pass
    while True:
        group = list(islice(stream, size))
        if len(group) == size:
            yield group[rank]
            continue
        if group and rest == "pad":
            group += [first[place % len(first)] for place in range(size - len(group))]
            yield group[rank]
        return


def _behind(first: list[Example], stream: Iterator[Example]) -> Iterator[Example]:
    yield from first
    yield from stream
