"""Finds Horovod itself, if it is installed beside hvdlite."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from importlib.machinery import PathFinder

from hvdlite.base import knobs


def is_alias(file: str) -> bool:
    """Whether this __init__.py of a package `horovod` is hvdlite's."""
    with open(file, encoding="utf-8", errors="replace") as text:
        return "hvdlite.compat" in text.read()


def find(places: Iterable[str]) -> str | None:
    """Returns the file that `import horovod` would run without hvdlite's alias."""
    for place in places:
        spec = PathFinder.find_spec("horovod", [place])
        if spec is not None and spec.origin is not None and not is_alias(spec.origin):
            return spec.origin
    return None


def say_if_hidden() -> None:
    """Prints one line at log level info that says which of the two runs."""
    asked = map(os.environ.get, knobs.by_field("log_level").environment)
    chosen = next(filter(None, asked), "")
    if chosen.lower() in ("trace", "debug", "info") and (hidden := find(sys.path)):
        print(f"hvdlite: horovod is hvdlite in this process; {hidden} is not used", file=sys.stderr)
