"""What `hvdlite report` does."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from hvdlite.report import files
from hvdlite.report.findings import findings
from hvdlite.report.page import page
from hvdlite.report.writing import write


def run(arguments: argparse.Namespace) -> int:
    """Runs the command, and returns the exit status."""
    output: Path = arguments.output or arguments.files[0].with_suffix(".html")
    try:
        facts = files.read(arguments.files)
    except OSError as error:
        return _fail(f"cannot read {error.filename}: {error.strerror}")
    except ValueError as error:
        return _fail(str(error))
    try:
        write(str(output), page(facts, time.time()))
    except OSError as error:
        return _fail(f"cannot write {output}: {error.strerror}")
    for finding in findings(facts):
        print(f"{finding.text} {finding.advice}")
    ranks = "1 rank" if len(facts.hosts) == 1 else f"{len(facts.hosts)} ranks"
    print(f"{output}: {ranks}. Open it in a browser.")
    return 0


def _fail(why: str) -> int:
    print(f"hvdlite report: {why}.", file=sys.stderr)
    return 1
