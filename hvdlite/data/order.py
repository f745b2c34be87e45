"""The order of an epoch: a permutation that the seed and the epoch's number alone decide. Pure.

Up to ten million samples it is a table; above that a keyed bijection, which needs no memory.
All ranks need the same order, whichever versions of Python and numpy they have: numpy keeps
`RandomState` as it is for ever, and the rest is arithmetic on 64-bit integers.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray  # takes long to import

TABLE_MOST = 10_000_000
ROUNDS = 4

Indices: TypeAlias = "NDArray[np.int64]"
#: Places in an epoch to samples of the data set.
Order: TypeAlias = "Callable[[Indices], Indices]"


def straight(places: Indices) -> Indices:
    return places


def shuffled(length: int, seed: int, epoch: int) -> Order:
    """The permutation of range(length) for this seed and epoch."""
    if length <= TABLE_MOST:
        return _table(length, seed, epoch)
    return _bijection(length, seed, epoch)


def _numbers(seed: int, epoch: int, count: int) -> NDArray[np.uint64]:
    """As many numbers of 64 bits as are wanted, from seed and epoch."""
    text = f"hvdlite order {seed} {epoch}".encode()
    found = np.frombuffer(hashlib.shake_256(text).digest(8 * count), dtype="<u8")
    return found.astype(np.uint64)


def _table(length: int, seed: int, epoch: int) -> Order:
    words = _numbers(seed, epoch, 4).view(np.uint32)
    table = np.arange(length, dtype=np.int32)
    np.random.RandomState(words).shuffle(table)

    def order(places: Indices) -> Indices:
        return table[places].astype(np.int64)

    return order


def _bijection(length: int, seed: int, epoch: int) -> Order:
    """Four Feistel rounds permute the numbers of an even count of bits. A place that they send
    beyond the length is sent on until it falls below it: that is a permutation as well."""
    half = max(1, ((length - 1).bit_length() + 1) // 2)
    keys = _numbers(seed, epoch, ROUNDS)

    def permuted(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
        shift, mask = np.uint64(half), np.uint64((1 << half) - 1)
        left, right = values >> shift, values & mask
        for key in keys:
            left, right = right, left ^ (_mixed(right ^ key) & mask)
        joined: NDArray[np.uint64] = (left << shift) | right
        return joined

    def order(places: Indices) -> Indices:
        found = permuted(places.astype(np.uint64))
        while (beyond := found >= np.uint64(length)).any():
            found[beyond] = permuted(found[beyond])
        return found.astype(np.int64)

    return order


def _mixed(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """SplitMix64's finalizer: each bit of the result depends on all bits."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    last: NDArray[np.uint64] = values ^ (values >> np.uint64(31))
    return last
