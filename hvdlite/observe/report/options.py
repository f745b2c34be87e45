"""The options of `hvdlite report`."""

from __future__ import annotations

import argparse
from pathlib import Path

DESCRIPTION = (
    "Make one page with pictures of what a job has done: its steps and waits over time, slow "
    "tensors, batches, and what to do. The page is a file of HTML that needs no network and runs "
    "no script. `hvdliterun --report FILE` makes it at the end of a job. Exit code: 0, or 1 if "
    "there is no page."
)


def add(parser: argparse.ArgumentParser) -> None:
    """Adds what the command takes."""
    parser.add_argument(
        "files",
        nargs="+",
        type=Path,
        metavar="FILE",
        help="the file of hvdliterun --metrics-file, ranks' timelines, or both",
    )
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        metavar="FILE",
        help="the page (default: the first file's name with .html)",
    )
