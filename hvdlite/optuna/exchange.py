"""The only collective of this package: each rank says what it does, and hears all others.

It has one name whatever the ranks say. So a rank whose objective has failed meets the others at
their next call of the trial.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any

import cloudpickle

from hvdlite.base import knobs
from hvdlite.core import engine
from hvdlite.core.arrays.objects import allgather_object
from hvdlite.core.process_sets import ProcessSet, set_id_of
from hvdlite.exceptions import HorovodInternalError
from hvdlite.optuna.agreement import END, Agreement, Said, TrialFailure, agree, failure_of

_NAME = "hvdlite.optuna"


class Exchange:
    """Of the ranks of a process set. The first of them has the study."""

    def __init__(self, process_set: ProcessSet) -> None:
        self.ranks = engine.ranks_of(set_id_of(process_set))
        self.is_first = engine.rank() == self.ranks[0]
        self._set = process_set

    def by_first(self, what: str, function: Callable[[], Any]) -> Agreement:
        """Calls the function on the first rank. All ranks get its result or raise its error."""
        return self._attempt(what, function if self.is_first else lambda: None)

    def by_all(self, what: str, function: Callable[[], Any]) -> Agreement:
        """Calls the function on all ranks. All get the results of all, or raise the first error."""
        return self._attempt(what, function)

    def end(self, value: Any) -> Agreement:
        """Says that this rank's objective has returned."""
        return self._attempt(END, lambda: value if self.is_first else None)

    def fail(self, error: Exception, is_pruned: bool) -> Agreement:
        """Says that this rank's objective has raised an error.

        The other ranks may be in a collective that waits for this rank. Then the job cannot go on,
        and ends after HVDLITE_STALL_CHECK_TIME_SECONDS.
        """
        failure = failure_of(error, engine.rank(), is_pruned)
        aborts = _abort_later(failure)
        try:
            return self._agree(Said(END, failure=failure))
        except HorovodInternalError as end:  # the job is over
            raise error from end
        finally:
            aborts.cancel()

    def _attempt(self, what: str, function: Callable[[], Any]) -> Agreement:
        own: Exception | None = None
        try:
            said = Said(what, _sendable(function()))
        except Exception as error:
            own = error
            said = Said(what, failure=failure_of(error, engine.rank()))
        agreed = self._agree(said)
        if agreed.failure is None or agreed.ends:
            return agreed
        raise own if own and agreed.failure.rank == engine.rank() else agreed.failure.error()

    def _agree(self, said: Said) -> Agreement:
        return agree(self.ranks, allgather_object(said, _NAME, self._set))


def _sendable(value: Any) -> Any:
    """Raises TypeError if the value cannot be pickled: the other ranks would wait for it."""
    try:
        cloudpickle.dumps(value)
    except Exception as error:
        raise TypeError(f"{value!r} cannot be sent to the other ranks: {error}") from error
    return value


def _abort_later(failure: TrialFailure) -> threading.Timer:
    """Ends the job in a while, unless the timer is cancelled."""
    values = knobs.resolve(os.environ)
    seconds = float(values["stall_check_time_seconds"])
    why = (
        f"rank {failure.rank} raised {failure.text} in an objective of hvdlite.optuna, and other "
        f"ranks have made no call of the trial for {seconds:g} s"
    )
    timer = threading.Timer(seconds, engine.abort, [why])
    timer.daemon = True
    if seconds > 0 and not values["stall_check_disable"]:
        timer.start()
    return timer
