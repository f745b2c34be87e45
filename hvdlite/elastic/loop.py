"""`run`: the program's function, in generation after generation."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from typing import Any, TypeVar

from hvdlite.elastic import news
from hvdlite.elastic.state import ObjectState, State
from hvdlite.exceptions import HorovodInternalError, HostsUpdatedInterrupt
from hvdlite.job import basics, membership
from hvdlite.job.membership import Member, PutOut, Standing

_log = logging.getLogger("hvdlite")
_OWN = ("save", "restore", "sync")

Result = TypeVar("Result")


def run(func: Callable[..., Result]) -> Callable[..., Result]:
    """Decorates `func(state, ...)`, which trains.

    When a rank is lost, or ranks come or go, the function is left by an exception. The others
    go on: they agree about the state and call the function again.
    """

    @functools.wraps(func)
    def in_generations(state: Any, *args: Any, **kwargs: Any) -> Result:
        call = functools.partial(func, state, *args, **kwargs)
        member = membership.member()
        if member is None:
            return _one_generation(state, call)
        loop = _Loop(member, state, call)
        try:
            result: Result = loop.run()
        except PutOut as out:
            _log.warning("%s", out.why)
            raise
        return result

    return in_generations


def _one_generation(state: Any, call: Callable[[], Result]) -> Result:
    """Of a job that is not elastic: its ranks stay, and one that fails ends it."""
    if basics.is_initialized() and basics.size() > 1 and basics.rank() == 0:
        _log.warning(
            "this job is not elastic, and ends with its first rank that fails: start it with "
            "`hvdliterun --min-np N` or `--host-discovery-script FILE`."
        )
    while True:
        state.sync()
        try:
            return call()
        except HostsUpdatedInterrupt:  # of the program's own
            state.on_reset()


class _Loop:
    def __init__(self, member: Member, state: Any, call: Callable[[], Any]) -> None:
        self._member = member
        self._state = state
        self._call = call
        self._foreign = is_foreign(state)

    def run(self) -> Any:
        member = self._member
        member.in_run = True
        told = member.place
        if basics.warms_up():
            self._next_generation()
        news.start(member, self._hear)
        try:
            return self._train((member.place.rank, member.place.size) != (told.rank, told.size))
        finally:
            news.stop()

    def _train(self, changed: bool) -> Any:
        member, state = self._member, self._state
        while True:
            try:
                if changed:
                    state.on_reset()
                self._settle()
                member.trains()
                result = self._call()
            except HorovodInternalError as error:
                if not error.retryable:
                    raise
                member.has_failed(getattr(error, "rank", None), str(error))
                if self._foreign:
                    state.restore()
            except HostsUpdatedInterrupt:
                if self._is_to_leave():
                    self._leave()
            else:
                member.done()
                return result
            self._next_generation()
            changed = True

    def _is_to_leave(self) -> bool:
        latest = news.latest()
        named = latest is not None and self._member.number in [
            each.member for each in latest.leaving
        ]
        return named or (latest is not None and latest.stop)

    def _leave(self) -> None:
        """Ends the process; a boundary has been agreed on, so the other ranks lose nothing."""
        self._member.leave(self._standing())
        basics.shutdown()
        raise PutOut("hvdlite: this process leaves the job, as hvdliterun has asked it to.")

    def _next_generation(self) -> None:
        """Ends when this process is in it. Raises PutOut if it is in none any more."""
        self._member.standing = self._standing()
        basics.shutdown()
        basics.init()

    def _standing(self) -> Standing:
        """Of a foreign state only its copies are known: whatever the roll says, rank 0 sends."""
        if not self._foreign:
            standing: Standing = self._state._standing()
            return standing
        position = self._state._marks.position if isinstance(self._state, State) else 0
        return Standing(position, False, position)

    def _settle(self) -> None:
        member, state = self._member, self._state
        assert member.roll is not None
        if not self._foreign:
            state._settle(member.entry.part, member.source, member.roll.position)
            return
        state.sync()
        if isinstance(state, State):
            state._marks.position = member.roll.position

    def _hear(self, heard: Any) -> None:
        if hasattr(self._state, "_hear"):
            self._state._hear(heard)


def is_foreign(state: Any) -> bool:
    """Whether the state saves, restores or synchronises itself in a way of its own."""
    if not isinstance(state, ObjectState):
        return True
    theirs = [kind for kind in type(state).__mro__ if not kind.__module__.startswith("hvdlite.")]
    return any(name in vars(kind) for kind in theirs for name in _OWN)
