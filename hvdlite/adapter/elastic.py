"""Whether a job is elastic, and what the frameworks' `elastic` modules say as long as they are
empty."""

from __future__ import annotations

import os
from typing import NoReturn

from hvdlite.job import basics


def enabled() -> bool:
    """Whether the number of ranks may change while a program runs."""
    return "1" in (os.environ.get("HVDLITE_ELASTIC"), os.environ.get("HOROVOD_ELASTIC"))


def era() -> tuple[str, int]:
    """A prefix and a number; optimizers are counted anew when they change.

    They change with each hvd.init(). In an elastic job they change when the function under
    `run` is called, in each generation: an optimizer made there is a new one on every rank.
    """
    if enabled():
        from hvdlite.job import membership

        member = membership.member()
        if member is not None:
            return ("run.", member.generation) if member.in_run else ("", 0)
    return "", basics.incarnation()


def not_yet(name: str) -> NoReturn:
    """To be a module's __getattr__."""
    raise AttributeError(
        f"hvdlite has no elastic.{name} for this framework yet: take the elastic parts out and "
        "save checkpoints, from which the job can be started again."
    )
