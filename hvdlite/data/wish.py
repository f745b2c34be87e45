"""What a call of `shard()` asks for, and what it leaves alone."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from hvdlite.core.process_sets import ProcessSet
from hvdlite.data.sharding import Shard, place_in

_log = logging.getLogger("hvdlite")


@dataclass(frozen=True)
class Wish:
    """The arguments of shard(). None: as the object itself has it."""

    shuffle: bool | None
    seed: int
    rest: str | None
    batch_size: int | None
    process_set: ProcessSet

    def place(self) -> tuple[int, int]:
        rank, size = place_in(self.process_set)
        return rank(), size()

    def dealt(self, length: int, batch_size: int, shuffle: bool = True, rest: str = "pad") -> Shard:
        """The last two are what the object itself has."""
        return Shard(
            length,
            batch_size,
            shuffle=shuffle if self.shuffle is None else self.shuffle,
            seed=self.seed,
            rest=self.rest or rest,
            process_set=self.process_set,
        )

    def for_streams(self, what: str) -> None:
        """Raises ValueError if it asks for what only samples with numbers can have."""
        if self.shuffle:
            raise ValueError(
                f"hvd.data.shard cannot shuffle {what}: shuffle it before, with the same seed on "
                "all ranks, or shuffle what shard() returns"
            )
        self.without_batch_size(what)

    def without_batch_size(self, what: str) -> None:
        if self.batch_size is not None:
            raise ValueError(
                f"hvd.data.shard takes batch_size for arrays only, and this is {what}: it has a "
                "batch size of its own, or none"
            )


def leave_alone(what: str, reason: str) -> None:
    """Says that data is not shared out a second time."""
    _log.warning("hvd.data.shard: %s stays as it is: %s", what, reason)
