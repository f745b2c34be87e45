"""A sampler whose epoch goes on where it stood when the number of ranks changes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from hvdlite.data.order import shuffled
from hvdlite.job import basics


class ElasticSampler(torch.utils.data.Sampler[int]):
    """Deals the samples of an epoch that are not processed yet to the ranks there are.

    Make it part of the state, call record_batch() after each batch, and set_epoch() at the end
    of an epoch. All ranks get equally many samples: the first ones are dealt again if need be.
    """

    def __init__(self, dataset: Any, shuffle: bool = True, seed: int = 0) -> None:
        self.dataset = dataset
        self.shuffle = shuffle
        self.seed = seed
        self.epoch = 0
        self.processed_num = 0
        self.reset()

    def set_epoch(self, epoch: int) -> None:
        """Begins an epoch, with an order of its own."""
        self.epoch = epoch
        self.processed_num = 0
        self.reset()

    def record_batch(self, batch_idx: int, batch_size: int) -> None:
        """Notes that all ranks have processed a batch of this size."""
        del batch_idx
        self.processed_num += batch_size * self.num_replicas

    def state_dict(self) -> dict[str, int]:
        return {"epoch": self.epoch, "processed_num": self.processed_num}

    def load_state_dict(self, state_dict: dict[str, int]) -> None:
        self.epoch = state_dict["epoch"]
        self.processed_num = state_dict["processed_num"]
        self.reset()

    def reset(self) -> None:
        """Deals what is left of the epoch to the ranks that there are now."""
        self.rank, self.num_replicas = basics.rank(), basics.size()
        places = np.arange(len(self.dataset))
        order = shuffled(len(places), self.seed, self.epoch)(places) if self.shuffle else places
        self.remaining_indices: list[int] = order[self.processed_num :].tolist()
        self.num_samples = -(-len(self.remaining_indices) // self.num_replicas)
        self.total_size = self.num_samples * self.num_replicas

    def __iter__(self) -> Iterator[int]:
        left = self.remaining_indices
        for place in range(self.rank, self.total_size, self.num_replicas):
            yield left[place % len(left)]

    def __len__(self) -> int:
        return self.num_samples
