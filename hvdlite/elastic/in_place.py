"""A loop that goes on where it is when ranks die, leave and come, in any framework.

Frameworks differ in what they do with a turn in which a rank is lost: torch ends it without an
update, Keras makes it again. Here is what they share: how the ranks come to the same moment, and
how newcomers are let in.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Protocol, TypeVar

from hvdlite.core.arrays.objects import allgather_object, broadcast_object
from hvdlite.data.cursor import Cursor
from hvdlite.data.dealing import Position
from hvdlite.elastic.session import Session
from hvdlite.elastic.state import ObjectState
from hvdlite.elastic.turns import Moment, Turn, aligned
from hvdlite.exceptions import HorovodInternalError, HostsUpdatedInterrupt, PeerLostError
from hvdlite.job import basics

Result = TypeVar("Result")


class Trainer(Protocol):
    """What a trainer has besides: counters, callbacks. They are those of the begin of a turn."""

    def objects(self) -> Any: ...
    def take_objects(self, found: Any) -> None: ...


class LoopInPlace:
    """An adapter says what `_bind` and `_came_in` do, calls next_turn() in front of a turn, and
    agrees behind it."""

    def __init__(
        self, state: ObjectState, size: int, on_change: Callable[[int, int], None] | None,
        trainer: Trainer | None,
    ) -> None:  # fmt: skip
        self.turn = Turn()
        self.in_region = False
        self.state = state
        self._on_change = on_change
        self._trainer = trainer
        self._last: list[Any] | None = None
        self._changes = False  # planned: made where the next turn begins
        self._newcomers = False  # wait for the next turn
        self._is_newcomer = False  # until it is let in
        self._root = 0  # the first rank that is no newcomer
        self._size = size
        self._session: Session | None = None

    # ---- what an adapter adds

    def _bind(self, ranks: list[int]) -> None:
        """Those ranks call this together. The loop's operations are theirs from now on."""
        raise NotImplementedError

    def _came_in(self) -> None:
        """Newcomers have what the others have; all ranks stand at the begin of a turn."""

    # ---- between turns

    def region(self, function: Callable[[], Result]) -> Result:
        """Calls a function with collectives between turns, such as a validation, and again if a
        rank is lost meanwhile. Its result has to be the same on all ranks."""
        while True:
            self.in_region = self.turn.waits = True
            try:
                result = function()
            except HorovodInternalError as error:
                if not error.retryable or self._session is None:
                    raise
                found = self.again(error)
                if found is None:
                    continue
                result = found[0]
            finally:
                self.in_region = self.turn.waits = False
            self.done([result])
            return result

    def done(self, result: list[Any] | None) -> None:
        """An operation between turns has ended. `result`: for ranks that have not had it."""
        self.turn.done += 1
        self._last = result

    def next_turn(self) -> None:
        """Where all ranks that there are stand at the begin of a turn."""
        while self._session is not None and self.turn.behind == 0:
            try:
                if self._changes:
                    self._changes = False
                    self._session.leave_if_asked()
                    self._next_generation()
                if not self._newcomers:
                    break
                self._let_in()
            except HorovodInternalError as error:
                self.again(error)
        self.turn.begin()

    def _agree(self) -> None:
        """Behind a turn that is whole."""
        try:
            self.state.behind_boundary()
        except HostsUpdatedInterrupt:
            self._changes = True
        except HorovodInternalError as error:
            self.again(error)

    # ---- generations

    def _begin(self) -> None:
        """This process is a member. A newcomer is let in by the others meanwhile."""
        self._session = session = Session(self.state)
        self._is_newcomer = basics.warms_up()
        generation = session.member.generation
        self.state._marks.steps = True
        self.state._keep()
        changed = session.begin()
        self._settle(changed, bind=session.member.generation != generation)

    def end(self) -> None:
        """The training is over: what comes now is as in a job whose ranks stay."""
        session, self._session = self._session, None
        if session is not None:
            session.member.done()
            session.end()

    def again(self, error: Exception) -> list[Any] | None:
        """Goes into the next generation, with those that are left and perhaps newcomers. Returns
        the result of the operation that this rank waits for, if another one has had it; None: the
        operation is done again."""
        assert self._session is not None
        self._session.has_failed(error)
        return self._next_generation()

    def _next_generation(self) -> list[Any] | None:
        assert self._session is not None
        self._changes = False
        self._session.next_generation()
        return self._settle(changed=True, bind=True)

    def _settle(self, changed: bool, bind: bool) -> list[Any] | None:
        session = self._session
        assert session is not None
        while True:
            try:
                session.settle(changed)
                return self._align(bind)
            except HorovodInternalError as error:
                if not error.retryable:
                    raise
                session.has_failed(error)
                session.next_generation()
                changed = bind = True

    def _align(self, bind: bool) -> list[Any] | None:
        """All ranks come to the same moment. Those that are new wait for the next turn."""
        told: list[Moment | None] = allgather_object(
            None if self._is_newcomer else self.turn.moment(), name="elastic.turns"
        )
        if told.count(None) == len(
            told
        ):  # those that have let these in are dead, and had sent their state before
            if self._trainer is not None:
                raise RuntimeError(
                    "all ranks were lost that had the trainer's counters, before this one had them"
                )
            told, self._is_newcomer = [Moment(0, 0, False) for _ in told], False
        stay = [rank for rank, each in enumerate(told) if each is not None]
        plan = aligned([each for each in told if each is not None])
        self._root, self._newcomers = stay[0], len(stay) < len(told)
        found: list[Any] | None = None
        if plan.source is not None:
            found = broadcast_object(self._last, stay[plan.source], name="elastic.result")
        if self._is_newcomer:
            self.turn.begun = max(each.turns for each in told if each is not None)
            self._let_in()
            return None
        place = stay.index(basics.rank())
        self.turn.behind = plan.behind[place]
        if bind:
            self._bind(stay)
            self._tell_of_change(len(stay))
        if not plan.takes[place]:
            return None
        if found is None:
            raise for_good(
                PeerLostError(
                    "a rank was lost in an operation whose result another rank has had, and which "
                    "is too large to be sent again: call the function that does it by "
                    "region(function)"
                )
            )
        return found

    def _let_in(self) -> None:
        """All ranks, those that are new, too, stand at the begin of a turn."""
        self._bind(list(range(basics.size())))
        self.state.receive_objects(self._root)
        if self._trainer is not None:
            mine = self._trainer.objects() if basics.rank() == self._root else None
            found = broadcast_object(mine, self._root, name="elastic.trainer")
            if self._is_newcomer:
                self._trainer.take_objects(found)
        self._is_newcomer = False
        self.turn.done = 0  # a newcomer has not counted them
        self._came_in()
        self._newcomers = False
        self._tell_of_change(basics.size())

    def _tell_of_change(self, size: int) -> None:
        before, self._size = self._size, size
        if self._on_change is not None and before != size:
            self._on_change(before, size)


def for_good(error: HorovodInternalError) -> HorovodInternalError:
    """Going on does not help: the program gets it."""
    error.retryable = False
    return error


class JobsCursor(Cursor):
    """Whose global batch is that of the ranks at the start. A newcomer gets to know it from the
    others."""

    def steps_of_an_epoch(self) -> int:
        return self._dealing.left(Position(), self._size())

    def parts(self, size: int) -> dict[int, float]:
        """How many samples of a step a rank takes of so many, and their weight."""
        step = self._dealing.step(Position(), size)
        of = [self._dealing.part(step, rank, size) for rank in range(size)]
        return {end - begin: self._dealing.weight(step, rank, size)
                for rank, (begin, end) in enumerate(of)}  # fmt: skip

    def state_dict(self) -> dict[str, int]:
        return super().state_dict() | {"global_batch": self._dealing.full(1)}

    def load_state_dict(self, state: Mapping[str, int]) -> None:
        self._dealing = replace(self._dealing, global_batch=state["global_batch"])
        super().load_state_dict(state)
