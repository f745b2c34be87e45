"""`run`: the program's function, in generation after generation."""

from __future__ import annotations

import functools
import logging
import sys
from collections.abc import Callable
from typing import Any, TypeVar

from hvdlite.elastic.notifications import notification_manager
from hvdlite.elastic.session import Session, warn_of_a_job_that_is_not_elastic
from hvdlite.exceptions import HorovodInternalError, HostsUpdatedInterrupt
from hvdlite.job import basics, membership
from hvdlite.job.membership import PutOut

_log = logging.getLogger("hvdlite")

Result = TypeVar("Result")


def run(func: Callable[..., Result]) -> Callable[..., Result]:
    """Decorates `func(state, ...)`, which trains.

    When a rank is lost, or ranks come or go, the function is left by an exception. The others
    go on: they agree about the state and call the function again.
    """
    return run_fn(func, None)


def run_fn(func: Callable[..., Result], reset: Callable[[], None] | None) -> Callable[..., Result]:
    """`run` for a program that leaves a job and joins the next one itself.

    Its `reset` calls shutdown() and init(), and is called in jobs that are not elastic, too.
    """

    @functools.wraps(func)
    def in_generations(state: Any, *args: Any, **kwargs: Any) -> Result:
        call = functools.partial(func, state, *args, **kwargs)
        member = membership.member()
        notification_manager.init()
        notification_manager.register_listener(state)
        try:
            if member is None:
                return _one_generation(state, call, reset)
            if "hvdlite.job.default_group" in sys.modules:
                from hvdlite.job import default_group

                default_group.check_before_run(basics.warms_up(), member.numbers.rank == 0)
            session = Session(state) if reset is None else Session(state, reset)
            result: Result = _Loop(session, call).run()
            return result
        except PutOut as out:
            _log.warning("%s", out.why)
            raise
        finally:
            notification_manager.remove_listener(state)

    return in_generations


def _one_generation(
    state: Any, call: Callable[[], Result], reset: Callable[[], None] | None
) -> Result:
    """Of a job that is not elastic: its ranks stay, and one that fails ends it."""
    warn_of_a_job_that_is_not_elastic()
    synchronises = True
    while True:
        try:
            if synchronises:
                state.sync()
            return call()
        except HorovodInternalError as error:
            if reset is None or not error.retryable:
                raise
            state.restore()
            synchronises = True
        except HostsUpdatedInterrupt as interrupt:  # of the program's own
            synchronises = not interrupt.skip_sync
        if reset is not None:
            reset()
        state.on_reset()


class _Loop:
    def __init__(self, session: Session, call: Callable[[], Any]) -> None:
        self._session = session
        self._call = call

    def run(self) -> Any:
        try:
            return self._train(self._session.begin())
        finally:
            self._session.end()

    def _train(self, changed: bool) -> Any:
        session = self._session
        while True:
            try:
                session.settle(changed)
                result = self._call()
            except HorovodInternalError as error:
                if not error.retryable:
                    raise
                session.has_failed(error)
            except HostsUpdatedInterrupt:
                session.leave_if_asked()
            else:
                session.member.done()
                return result
            session.next_generation()
            changed = True


# Which process of an elastic job this is.


def generation() -> int:
    """Returns the number of the generation that this process is in; 0: none, or no elastic job."""
    found = membership.member()
    return found.generation if found else 0


def member() -> int:
    """Returns this process's number, which no other process of the job has or will have."""
    found = membership.member()
    return found.number if found else 0


def slot() -> int:
    """Returns the slot of this process on its host, which never changes: the index of its GPU.

    local_rank() becomes smaller when a neighbour dies.
    """
    found = membership.member()
    if found is not None:
        return found.slot
    return basics.local_rank()
