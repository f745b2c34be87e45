"""What benchmarks/train and benchmarks/train-graphs are told alike."""

from __future__ import annotations

import argparse
from pathlib import Path

from record import end_in_order


def parser(about: str | None) -> argparse.ArgumentParser:
    """Its program ends in order when it is interrupted: what it has started is ended on the way
    out."""
    end_in_order()
    made = argparse.ArgumentParser(
        description=about, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    made.add_argument("--ranks", type=int, default=2)
    made.add_argument("--rounds", type=int, default=12)
    made.add_argument(
        "--quiet",
        type=float,
        default=0.3,
        help="wait up to this long for others, before each block",
    )
    made.add_argument(
        "--scheduling",
        choices=["nice", "fifo"],
        default="nice",
        help="of all ranks, where permitted",
    )
    made.add_argument(
        "--output", type=Path, default=Path(__file__).parent.parent / "docs" / "benchmarks"
    )
    return made
