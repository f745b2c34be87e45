"""What benchmarks/train and benchmarks/train-graphs are told alike."""

from __future__ import annotations

import argparse
import signal
import sys
from pathlib import Path


def parser(about: str | None) -> argparse.ArgumentParser:
    """Its program ends in order when it is interrupted: what it has started is ended on the way out."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: sys.exit("interrupted"))
    made = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--ranks", type=int, default=2)
    made.add_argument("--rounds", type=int, default=12)
    made.add_argument("--quiet", type=float, default=0.3, help="wait up to this long for others, before each block")
    made.add_argument("--scheduling", choices=["nice", "fifo"], default="nice", help="of all ranks, where permitted")
    made.add_argument("--output", type=Path, default=Path(__file__).parent.parent / "docs")
    return made
