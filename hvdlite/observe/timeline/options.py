"""The options of `hvdlite timeline`."""

from __future__ import annotations

import argparse
from pathlib import Path

DESCRIPTION = (
    "Merge the timelines of all ranks (HVDLITE_TIMELINE with HVDLITE_TIMELINE_RANKS=all) into one "
    "trace on one clock, which Perfetto and chrome://tracing open. Arrows lead from the rank that "
    "asked last for an operation to the ranks that waited for it. The clocks of hosts are compared "
    "by the operations that they performed together, and the error is printed."
)


def add(parser: argparse.ArgumentParser) -> None:
    """Adds what the command takes."""
    actions = parser.add_subparsers(title="actions", required=True, metavar="ACTION")
    merge = actions.add_parser(
        "merge", help="one trace from those of all ranks", description=DESCRIPTION
    )
    merge.add_argument(
        "files",
        nargs="+",
        type=Path,
        metavar="FILE",
        help="the ranks' files; of rank 0's file alone, those of the other ranks beside it are "
        "taken, too",
    )
    merge.add_argument(
        "-o", "--output", type=Path, metavar="FILE", help="default: FILE.merged.json; may be a .gz"
    )
    merge.add_argument(
        "--profile",
        action="append",
        default=[],
        type=_profile,
        metavar="RANK=PATH",
        help="add what torch.profiler (its file) or jax.profiler (its folder) has recorded on a "
        "rank; may be repeated",
    )


def _profile(text: str) -> tuple[int, Path]:
    rank, separator, path = text.partition("=")
    if not separator or not rank.isdecimal():
        raise argparse.ArgumentTypeError(f"'{text}' is not RANK=PATH")
    return int(rank), Path(path)
