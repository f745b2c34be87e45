"""`hvdlite simulate`."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from statistics import median
from typing import Any

from hvdlite.tools.simulate import models, options, schedule, timeline, units
from hvdlite.tools.simulate.cluster import Cluster
from hvdlite.tools.simulate.predict import Prediction, RunOptions, predict

_SMALL_ROUNDS = 200
_LARGE_ROUNDS = 5
_LARGE = 4 << 20  # numbers
_HEAD = (
    "ranks", "hosts", "bandwidth", "compression", "step", "network", "waits", "efficiency",
    "speedup", "by",
)  # fmt: skip


def run(given: argparse.Namespace) -> int:
    """Prints the predictions. Returns 2 if a question makes no sense, with a sentence."""
    if given.calibrate:
        calibrate()
        return 0
    try:
        alone, scatter, notes = _source(given)
        predictions = _predictions(given, alone, scatter)
    except (OSError, ValueError) as error:
        print(f"hvdlite simulate: {error}", file=sys.stderr)
        return 2
    if given.json:
        print(as_json(predictions))
        return 0
    for line in notes:
        print(line)
    print()
    print(table(predictions))
    return 0


def _source(given: argparse.Namespace) -> tuple[schedule.Schedule, float, list[str]]:
    """The step of one rank alone, the jitter, and what a reader should know about them."""
    if given.timeline is not None:
        recording = timeline.read(Path(given.timeline).read_text())
        alone = recording.schedule
        if given.step is not None:
            alone = alone.stretched(given.step / alone.seconds)
        scatter = recording.jitter if given.jitter is None else given.jitter
        notes = [f"{given.timeline}, {recording.steps} steps: {_described(alone, scatter)}"]
        if not recording.overlapped:
            notes.append(
                "All gradients of a step were ready at once, so nothing overlaps below. Record "
                "with HVDLITE_OVERLAP=on to see when each one is ready."
            )
        return alone, scatter, notes
    if given.step is None:
        raise ValueError(
            f"--model {given.model} needs --step: the time of a step of one rank alone, such as "
            "0.25s"
        )
    alone = schedule.of_model(models.MODELS[given.model](), given.step)
    scatter = options.ASSUMED_JITTER if given.jitter is None else given.jitter
    assumed = ", assumed" if given.jitter is None else ""
    return alone, scatter, [f"{given.model}: {_described(alone, scatter)}{assumed}"]


def _described(alone: schedule.Schedule, scatter: float) -> str:
    return (
        f"{units.size_text(alone.size)} in {len(alone.gradients)} gradients, one rank alone takes "
        f"{units.time_text(alone.seconds)} for a step; jitter {100 * scatter:.1f}%"
    )


def _predictions(
    given: argparse.Namespace, alone: schedule.Schedule, scatter: float
) -> list[Prediction]:
    how = RunOptions(
        carrier=given.algorithm,
        threshold=given.fusion_threshold_mb * (1 << 20),
        window=given.cycle_time_ms * 1e-3,
        overlap=not given.no_overlap,
        jitter=scatter,
    )
    found = []
    for ranks, bandwidth, compression in product(given.ranks, given.bandwidth, given.compression):
        cluster = Cluster(
            ranks=ranks,
            ranks_per_host=given.ranks_per_host,
            latency=given.latency,
            bandwidth=bandwidth,
            goodput=given.goodput,
            host_latency=given.host_latency,
            host_bandwidth=given.host_bandwidth,
        )
        # One host has no card to cross, so one row is enough.
        if cluster.hosts > 1 or bandwidth == given.bandwidth[0]:
            found.append(predict(alone, cluster, compression, how))
    return found


def table(predictions: Sequence[Prediction]) -> str:
    rows = [_HEAD, *(_row(prediction) for prediction in predictions)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    widths[-1] = 0  # the last column is not padded
    cells = ([cell.rjust(width) for cell, width in zip(row, widths, strict=True)] for row in rows)
    return "\n".join(map("  ".join, cells))


def _row(p: Prediction) -> tuple[str, ...]:
    return (
        str(p.cluster.ranks),
        str(p.cluster.hosts),
        units.bandwidth_text(p.cluster.bandwidth) if p.cluster.hosts > 1 else "-",
        p.compression,
        units.time_text(p.step),
        units.time_text(p.communication),
        f"{100 * p.waits / p.step:.0f}%",
        f"{100 * p.efficiency:.1f}%",
        f"{p.speedup:.1f}x",
        p.how,
    )


def as_json(predictions: Sequence[Prediction]) -> str:
    """Times in seconds, rates in bytes per second."""
    rows = [
        {
            "ranks": p.cluster.ranks,
            "ranks_per_host": p.cluster.local,
            "hosts": p.cluster.hosts,
            "bandwidth": p.cluster.bandwidth,
            "latency": p.cluster.latency,
            "compression": p.compression,
            "alone": p.alone,
            "computes": p.computes,
            "step": p.step,
            "communication": p.communication,
            "waits": p.waits,
            "efficiency": p.efficiency,
            "speedup": p.speedup,
            "batches": p.batches,
            "by": p.how,
        }
        for p in predictions
    ]
    return json.dumps(rows, indent=1)


# --calibrate measures the latency and the bandwidth between the ranks of this job. It alone needs
# the core.


def calibrate() -> None:
    """Rank 0 prints the options for `hvdlite simulate`. Each rank should have a host of its own."""
    import numpy as np

    import hvdlite as hvd

    hvd.init()
    try:
        small = _seconds(hvd, np.zeros(1, np.float32), _SMALL_ROUNDS)
        large = _seconds(hvd, np.zeros(_LARGE, np.float32), _LARGE_ROUNDS)
        if hvd.rank() == 0:
            print(network_options(small, large, 4.0 * _LARGE, hvd.size()))
    finally:
        hvd.shutdown()


def _seconds(hvd: Any, array: Any, rounds: int) -> float:
    """The median time of a blocking allreduce."""
    times = []
    for turn in range(rounds + 1):
        began = time.perf_counter()
        hvd.allreduce(array, op=hvd.Sum, name=f"calibrate.{array.size}")
        if turn > 0:  # the first one is negotiated in full
            times.append(time.perf_counter() - began)
    return median(times)


def network_options(small: float, large: float, size: float, ranks: int) -> str:
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
