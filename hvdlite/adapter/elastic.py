"""Whether a job is elastic, and what the frameworks' `elastic` modules say as long as they are empty."""

from __future__ import annotations

import os
from typing import NoReturn


def enabled() -> bool:
    """Whether the number of ranks may change while a program runs."""
    return "1" in (os.environ.get("HVDLITE_ELASTIC"), os.environ.get("HOROVOD_ELASTIC"))


def not_yet(name: str) -> NoReturn:
    """To be a module's __getattr__."""
    raise AttributeError(
        f"hvdlite has no elastic training yet, and so no elastic.{name}: take the elastic parts out and save checkpoints, "
        "from which the job can be started again."
    )
