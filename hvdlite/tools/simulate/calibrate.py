"""Measures the latency and the bandwidth between the ranks of this job."""

from __future__ import annotations

import time
from statistics import median

import numpy as np

import hvdlite as hvd
from hvdlite.tools.simulate import units

_SMALL_ROUNDS = 200
_LARGE_ROUNDS = 5
_LARGE = 4 << 20  # numbers


def main() -> None:
    """Rank 0 prints the options for `hvdlite simulate`. Each rank should have a host of its own."""
    hvd.init()
    try:
        small = _seconds(np.zeros(1, np.float32), _SMALL_ROUNDS)
        large = _seconds(np.zeros(_LARGE, np.float32), _LARGE_ROUNDS)
        if hvd.rank() == 0:
            print(options(small, large, 4.0 * _LARGE, hvd.size()))
    finally:
        hvd.shutdown()


def _seconds(array: np.ndarray, rounds: int) -> float:
    """The median time of a blocking allreduce."""
    times = []
    for turn in range(rounds + 1):
        began = time.perf_counter()
        hvd.allreduce(array, op=hvd.Sum, name=f"calibrate.{array.size}")
        if turn > 0:  # the first one is negotiated in full
            times.append(time.perf_counter() - began)
    return median(times)


def options(small: float, large: float, size: float, ranks: int) -> str:
    """The options that explain the times of an allreduce of 4 bytes and of one of `size` bytes.
    The small one has a message for the request, one for the decision and one for the data."""
    if ranks == 1:
        return "One rank has nothing to measure: start two, each on a host of its own."
    rate = 2 * size * (ranks - 1) / ranks / max(large - small, 1e-9)
    return (
        f"--latency {small / 3 * 1e6:.1f}us --bandwidth {rate * 8 / 1e9:.3g}Gbit --goodput 1\n"
        f"({units.time_text(small)} for 4 bytes and {units.time_text(large)} for "
        f"{units.size_text(size)} among {ranks} ranks)"
    )
