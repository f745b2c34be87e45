"""`run`: the program's function, in generation after generation."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from typing import Any, TypeVar

from hvdlite.elastic import news, notices
from hvdlite.elastic.notifications import notification_manager
from hvdlite.elastic.process_sets import LastingSets
from hvdlite.elastic.sigterm import Sigterm
from hvdlite.elastic.state import ObjectState, State
from hvdlite.exceptions import HorovodInternalError, HostsUpdatedInterrupt
from hvdlite.job import basics, membership, torch_environment
from hvdlite.job.membership import Member, PutOut, StateProgress
from hvdlite.rendezvous.documents import DriverNotice

_log = logging.getLogger("hvdlite")
_OWN = ("save", "restore", "sync")

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
            result: Result = _Loop(member, state, call, reset or _reset).run()
            return result
        except PutOut as out:
            _log.warning("%s", out.why)
            raise
        finally:
            notification_manager.remove_listener(state)

    return in_generations


def _reset() -> None:
    basics.shutdown()
    basics.init()


def _one_generation(
    state: Any, call: Callable[[], Result], reset: Callable[[], None] | None
) -> Result:
    """Of a job that is not elastic: its ranks stay, and one that fails ends it."""
    if basics.is_initialized() and basics.size() > 1 and basics.rank() == 0:
        _log.warning(
            "this job is not elastic, and ends with its first rank that fails: start it with "
            "`hvdliterun --min-np N` or `--host-discovery-script FILE`."
        )
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
    def __init__(
        self, member: Member, state: Any, call: Callable[[], Any], reset: Callable[[], None]
    ) -> None:
        self._member = member
        self._state = state
        self._call = call
        self._reset = reset
        self._foreign = is_foreign(state)
        self._sets = LastingSets(member)

    def run(self) -> Any:
        member = self._member
        member.in_run = True
        told = member.numbers
        if basics.warms_up():
            self._next_generation()
        news.start(member, _tell)
        try:
            with Sigterm(member):
                return self._train(
                    (member.numbers.rank, member.numbers.size) != (told.rank, told.size)
                )
        finally:
            news.stop()

    def _train(self, changed: bool) -> Any:
        member, state = self._member, self._state
        while True:
            try:
                if member.generation > 1:
                    self._sets.renew()
                torch_environment.renew(member)
                self._take_role(changed)
                member.trains()
                result = self._call()
            except HorovodInternalError as error:
                if not error.retryable:
                    raise
                member.has_failed(basics.loss_of(error))
                if self._foreign:
                    state.restore()
            except HostsUpdatedInterrupt:
                self._leave_if_asked()
            else:
                member.done()
                return result
            self._next_generation()
            changed = True

    def _leave_if_asked(self) -> None:
        """Ends the process if the ranks have agreed at this boundary that it leaves."""
        told = news.agreed()
        notice = notices.notice(told, self._member) if told is not None else None
        if notice is None or not notice.this_rank:
            return
        self._member.leave(self._progress())
        basics.shutdown()
        why = f" ({notice.reason})" if notice.reason else ""
        raise PutOut(f"hvdlite: this process leaves the job, as it was asked to{why}.")

    def _next_generation(self) -> None:
        """Ends when this process is in it. Raises PutOut if it is in none any more."""
        self._member.progress = self._progress()
        if not self._foreign:
            self._member.alike, self._member.fingerprints = self._state._described()
        self._reset()

    def _progress(self) -> StateProgress:
        """Of a foreign state only its copies are known, and rank 0 always sends."""
        if not self._foreign:
            progress: StateProgress = self._state._progress()
            return progress
        position = self._state._marks.position if isinstance(self._state, State) else 0
        return StateProgress(position, False, position)

    def _take_role(self, changed: bool) -> None:
        member, state = self._member, self._state
        assert member.assignment is not None
        if not self._foreign:
            state._take_role(member.entry.role, member.source, member.assignment.position, changed)
            return
        if changed:
            state.on_reset()
        state.sync()
        if isinstance(state, State):
            state._marks.position = member.assignment.position


def _tell(heard: DriverNotice) -> None:
    notification_manager.tell(removed=bool(heard.leaving), added=bool(heard.ready))


def is_foreign(state: Any) -> bool:
    """Whether the state saves, restores or synchronises itself in a way of its own."""
    if not isinstance(state, ObjectState):
        return True
    theirs = [kind for kind in type(state).__mro__ if not kind.__module__.startswith("hvdlite.")]
    return any(name in vars(kind) for kind in theirs for name in _OWN)
