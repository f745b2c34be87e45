"""What hvdlite tells a person once, and not on each rank."""

from __future__ import annotations

import sys

from hvdlite.core import engine
from hvdlite.core.process_sets import ProcessSet


def announce(text: str, process_set: ProcessSet) -> None:
    """Prints a line on stderr, on the first rank of the set."""
    if engine.members_of(process_set)[:1] == [engine.rank()] and sys.stderr is not None:
        print(text, file=sys.stderr, flush=True)
