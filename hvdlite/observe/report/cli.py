"""What `hvdlite report` does."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from hvdlite.base import private_file
from hvdlite.observe.report import files, words
from hvdlite.observe.report.findings import findings
from hvdlite.observe.report.page import page

# Each number of the files may be one of a job, and all together of none.
_CONTRADICT = "there is no page of these files, because their numbers contradict one another"


def run(arguments: argparse.Namespace) -> int:
    """Runs the command, and returns the exit status."""
    output: Path = arguments.output or arguments.files[0].with_suffix(".html")
    try:
        facts = files.read(arguments.files)
    except OSError as error:
        return _fail(f"cannot read {error.filename}: {error.strerror}")
    except ValueError as error:
        return _fail(str(error))
    except ArithmeticError as error:
        return _fail(f"{_CONTRADICT}: {type(error).__name__}: {error}")
    write = private_file.write_as_asked if arguments.output else private_file.write
    try:
        made, found = page(facts, time.time()), findings(facts)
    except (ArithmeticError, LookupError, ValueError) as error:
        return _fail(f"{_CONTRADICT}: {type(error).__name__}: {error}")
    try:
        write(str(output), made.encode())
    except OSError as error:
        return _fail(f"cannot write {output}: {error.strerror}")
    for finding in found:
        print(words.plain(f"{finding.text} {finding.advice}"))
    ranks = "1 rank" if len(facts.hosts) == 1 else f"{len(facts.hosts)} ranks"
    print(f"{output}: {ranks}. Open it in a browser.")
    return 0


def _fail(why: str) -> int:
    print(words.plain(f"hvdlite report: {why}."), file=sys.stderr)
    return 1
