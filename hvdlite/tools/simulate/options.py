"""The options of `hvdlite simulate`."""

from __future__ import annotations

import argparse
from collections.abc import Callable

from hvdlite.tools.simulate import cluster, models, units
from hvdlite.tools.simulate.choice import CARRIERS
from hvdlite.tools.simulate.predict import COMPRESSIONS

# Of single ranks' computing times, if nothing is known about them.
ASSUMED_JITTER = 0.02

DESCRIPTION = (
    "Predict the step time and the efficiency of a job with other ranks, another network or "
    "compression, without starting it. The gradients come from a table of models (--model) or from "
    "the timeline of a job that has run (--timeline). Every combination of --ranks, --bandwidth "
    "and --compression is a row; one host has no row for each bandwidth."
)


def _quantity(read: Callable[[str], float]) -> Callable[[str], float]:
    """argparse shows the text of this error only."""

    def parse(text: str) -> float:
        try:
            return read(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return parse


def _share(text: str) -> float:
    value = float(text[:-1]) / 100 if text.endswith("%") else float(text)
    if not 0 <= value <= 1:
        raise ValueError(f"'{text}' is not between 0 and 1, or 0% and 100%")
    return value


def _goodput(text: str) -> float:
    value = _share(text)
    if value == 0:
        raise ValueError("without payload no job ends")
    return value


def _count(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"'{text}' is not a number of ranks")
    return value


def add(parser: argparse.ArgumentParser) -> None:
    """Adds all options."""
    default = cluster.Cluster(ranks=1)
    seconds, rate = _quantity(units.seconds), _quantity(units.bytes_per_second)

    what = parser.add_argument_group("what is trained")
    source = what.add_mutually_exclusive_group(required=True)
    source.add_argument("--model", choices=tuple(models.MODELS), help="a model of the table")
    source.add_argument(
        "--timeline",
        metavar="FILE",
        help="the timeline of a job (hvdliterun --timeline-filename), recorded with "
        "HVDLITE_OVERLAP=on",
    )
    source.add_argument(
        "--calibrate",
        action="store_true",
        help="measure --latency and --bandwidth between the ranks of this job instead: hvdliterun "
        "-H a:1,b:1 hvdlite simulate --calibrate",
    )
    what.add_argument(
        "--step",
        type=seconds,
        metavar="TIME",
        help="a step of one rank alone, such as 0.25s; with --timeline, instead of the recorded "
        "one",
    )
    what.add_argument(
        "--jitter",
        type=_quantity(_share),
        metavar="SHARE",
        help="how much the times of single ranks scatter: their standard deviation, such as 2%% "
        f"(default: the timeline's, else {100 * ASSUMED_JITTER:g}%%)",
    )

    where = parser.add_argument_group("where it runs")
    where.add_argument("--ranks", type=_count, nargs="+", metavar="N", default=[8, 64, 512])
    where.add_argument(
        "--ranks-per-host", type=_count, metavar="K", default=1, help="(default %(default)s)"
    )
    where.add_argument(
        "--bandwidth",
        type=rate,
        nargs="+",
        metavar="RATE",
        default=[default.bandwidth],
        help="the line rate of a host's card, such as 10Gbit (default 25Gbit)",
    )
    where.add_argument(
        "--goodput",
        type=_quantity(_goodput),
        metavar="SHARE",
        default=default.goodput,
        help="the share of the line rate that tensors get (default 94%%: TCP, frames of 1500 "
        "bytes)",
    )
    where.add_argument(
        "--latency",
        type=seconds,
        metavar="TIME",
        default=default.latency,
        help="of one message between hosts (default 25us)",
    )
    where.add_argument(
        "--host-bandwidth",
        type=rate,
        metavar="RATE",
        default=default.host_bandwidth,
        help="of one rank inside its host (default 10GB)",
    )
    where.add_argument(
        "--host-latency",
        type=seconds,
        metavar="TIME",
        default=default.host_latency,
        help="of one hand-over inside a host (default 2us)",
    )

    how = parser.add_argument_group("how it runs")
    how.add_argument("--compression", nargs="+", choices=tuple(COMPRESSIONS), default=["none"])
    how.add_argument(
        "--algorithm",
        choices=tuple(CARRIERS),
        default="hvdlite",
        help="hvdlite: what it chooses for tensors in host memory. nccl: rings or trees through "
        "all GPUs. The others always use that algorithm (default hvdlite)",
    )
    how.add_argument("--fusion-threshold-mb", type=float, default=128, metavar="MB")
    how.add_argument("--cycle-time-ms", type=float, default=1, metavar="MS")
    how.add_argument(
        "--no-overlap", action="store_true", help="reduce gradients after the backward pass"
    )
    parser.add_argument("--json", action="store_true", help="print JSON, for other programs")
