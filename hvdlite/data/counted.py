"""What the views with a cursor have in common: the place in the data as a state."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hvdlite.data.sharding import Shard


class Counted:
    """A view whose batches are those of `shard`, which counts them as the loop takes them."""

    shard: Shard

    def __init__(self, shard: Shard) -> None:
        self.shard = shard

    def __len__(self) -> int:
        """The steps of a whole epoch."""
        return self.shard.steps_per_epoch

    def set_epoch(self, epoch: int) -> None:
        """Begins this epoch, or goes on in it if a state of it has just been loaded."""
        self.shard.set_epoch(epoch)

    def state_dict(self) -> dict[str, int]:
        """Where all ranks are in the data. It is the same on each rank, for any number of them."""
        return self.shard.state_dict()

    def load_state_dict(self, state: Mapping[str, int]) -> None:
        """The next loop goes on there, with this number of ranks."""
        self.shard.load_state_dict(state)
