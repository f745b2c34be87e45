"""Whether a job is elastic."""

from __future__ import annotations

import os

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
