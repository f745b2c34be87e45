"""`hvdlite simulate`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from itertools import product
from pathlib import Path

from hvdlite.tools.simulate import models, options, report, schedule, timeline, units
from hvdlite.tools.simulate.cluster import Cluster
from hvdlite.tools.simulate.predict import Options, Prediction, predict


def run(given: argparse.Namespace) -> int:
    """Prints the predictions. Returns 2 if a question makes no sense, with a sentence."""
    if given.calibrate:
        from hvdlite.tools.simulate import calibrate

        calibrate.main()
        return 0
    try:
        alone, scatter, notes = _source(given)
        predictions = _predictions(given, alone, scatter)
    except (OSError, ValueError) as error:
        print(f"hvdlite simulate: {error}", file=sys.stderr)
        return 2
    if given.json:
        print(report.as_json(predictions))
        return 0
    for line in notes:
        print(line)
    print()
    print(report.table(predictions))
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
    how = Options(
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


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="hvdlite simulate", description=options.DESCRIPTION, allow_abbrev=False
    )
    options.add(parser)
    return run(parser.parse_args(argv))
