"""A process set without processes, for tests of what shares out data."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hvdlite.data import sharding


class World:
    """A process set without processes: the test says which rank is looking."""

    process_set_id = 1

    def __init__(self, size: int, rank: int = 0) -> None:
        self.place = rank, size

    def rank(self) -> int:
        return self.place[0]

    def size(self) -> int:
        return self.place[1]


@pytest.fixture(autouse=True)
def gathered(monkeypatch: pytest.MonkeyPatch) -> list[list[int]]:
    """What the ranks compare: all have what this one has, unless the test changes `others`."""
    others: list[list[int]] = []

    def allgather(own: Any, name: str, process_set: World) -> Any:
        assert name == "hvd.data.shard" and own.nbytes == 56
        rows = others or [own[0].tolist()] * process_set.size()
        return np.array(rows)

    monkeypatch.setattr(sharding.ops, "allgather", allgather)
    return others
