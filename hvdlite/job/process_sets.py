"""Process sets, where Horovod has them: hvdlite/core/process_sets.py."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hvdlite.core.process_sets import ProcessSet, global_process_set

if TYPE_CHECKING:  # see __getattr__
    from hvdlite.job.registration import add_process_set, remove_process_set

__all__ = ["ProcessSet", "add_process_set", "global_process_set", "remove_process_set"]


def __getattr__(name: str) -> Any:
    # They gather what the ranks mean, with collectives, which need ProcessSet.
    if name in ("add_process_set", "remove_process_set"):
        from hvdlite.job import registration

        return getattr(registration, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
