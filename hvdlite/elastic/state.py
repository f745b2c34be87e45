"""What all ranks have in common, and what becomes of it when ranks die, leave and come."""

from __future__ import annotations

import copy
import logging
import queue
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hvdlite.base.ops import Max
from hvdlite.core.arrays.objects import broadcast_object
from hvdlite.core.arrays.ops import allreduce
from hvdlite.data.cursor import Cursor
from hvdlite.elastic import driver_notices, notices
from hvdlite.elastic.handlers import (
    CursorHandler,
    StateDictHandler,
    StateHandler,
    alike,
    fingerprints,
    has_state_dict,
)
from hvdlite.elastic.notifications import HostUpdateResult, Repeated
from hvdlite.elastic.randomness import OF_NUMPY, OF_PYTHON, Generator, RandomStates
from hvdlite.exceptions import HostsUpdatedInterrupt
from hvdlite.job import basics, membership
from hvdlite.job.membership import StateProgress
from hvdlite.rendezvous.documents import Pairs, Role

_SHARE = 0.01  # of the time, for copies that `step()` makes


@dataclass
class Marks:
    """`position`: how many boundaries lie behind this rank.

    `whole`: the state is that of its position. It is torn from the first change behind a
    boundary on. Only a program that calls `step()` has an optimizer that says when that is;
    in any other program a state is torn as soon as `commit()` has returned.
    """

    position: int = 0
    whole: bool = False
    copy: int | None = None  # the position of the copy
    steps: bool = False  # the program calls `step()`

    def at_boundary(self) -> None:
        self.position += 1
        self.whole = True

    def copied(self) -> None:
        self.copy = self.position

    def go_on(self) -> None:
        """The program trains on."""
        self.whole = self.steps

    def tear(self) -> None:
        self.whole = False

    def progress(self) -> StateProgress:
        return StateProgress(self.position, self.whole, self.copy)


class CopyPace:
    """When `step()` makes a copy: so rarely that copies take a hundredth of the time."""

    def __init__(self) -> None:
        self._due = 0.0

    def is_due(self) -> bool:
        return time.monotonic() >= self._due

    def took(self, seconds: float) -> None:
        self._due = time.monotonic() + seconds / _SHARE


_log = logging.getLogger("hvdlite")
_COPIES = ("auto", "always")


class State:
    """Derive from it, with `save`, `restore` and `sync`, for a state of another kind.

    Such a state is restored as soon as an operation has failed, and gets rank 0's in each
    generation. `bcast_object` and `get_rank` are the adapter's.
    """

    def __init__(
        self,
        bcast_object: Callable[..., Any] | None = None,
        get_rank: Callable[[], int] | None = None,
    ) -> None:
        self._bcast_object = bcast_object or broadcast_object
        self._rank = get_rank or basics.rank
        self._host_messages: queue.Queue[Any] = queue.Queue()
        self._last_updated_timestamp = 0
        self._reset_callbacks: list[Callable[[], None]] = []
        self._leave_callbacks: list[Callable[[notices.Notice], None]] = []
        self._marks = Marks()
        self._pauses = 1  # step() makes no copy at the next boundary, on no rank

    def register_leave_callbacks(
        self, callbacks: Sequence[Callable[[notices.Notice], None]]
    ) -> None:
        """Calls these functions, in this order, before ranks leave that have announced it.

        They are called on all ranks, at the boundary at which the others leave, with a `Notice`.
        This is the place to save a checkpoint.
        """
        self._leave_callbacks.extend(callbacks)

    def register_reset_callbacks(self, callbacks: Sequence[Callable[[], None]]) -> None:
        """Calls these functions, in this order, each time the job goes on with other ranks."""
        self._reset_callbacks.extend(callbacks)

    def on_reset(self) -> None:
        """The job goes on with other ranks."""
        self._host_messages = queue.Queue()
        self.reset()
        for callback in self._reset_callbacks:
            callback()

    def on_hosts_updated(self, timestamp: int, update_res: int) -> None:
        """Notes that hosts came or went. All ranks hear of it at the next boundary."""
        self._host_messages.put((timestamp, update_res))

    def commit(self) -> None:
        """Ends a step: makes a copy to go back to, and lets the ranks change if they have to."""
        before = self._marks.position
        self.save()
        if self._marks.position == before:  # a save() of the program's own does not count
            self._marks.at_boundary()
        self.check_host_updates()
        self._marks.go_on()

    def check_host_updates(self) -> None:
        """Raises HostsUpdatedInterrupt on all ranks if one of them has heard that ranks change."""
        latest, answered = driver_notices.latest(), _answered()
        told, result = self._read_messages()
        removed = bool(result & HostUpdateResult.removed)
        added = bool(result & HostUpdateResult.added)
        if latest is not None and latest.number > answered:
            removed, added = removed or bool(latest.leaving), added or bool(latest.ready)
        heard, before = latest.number if latest else 0, self._last_updated_timestamp
        number, any_told, *changes, self._last_updated_timestamp, self._pauses = _agreed(
            [heard, told, removed, added, before, self._pauses_copies()]
        )
        if number > answered or any_told:
            if not self._marks.whole:
                self._at_boundary()
            if number > answered:
                self._before_leaving(number)
            raise HostsUpdatedInterrupt(skip_sync=changes == [1, 0])

    def save(self) -> None:
        raise NotImplementedError

    def restore(self) -> None:
        raise NotImplementedError

    def sync(self) -> None:
        raise NotImplementedError

    def reset(self) -> None:
        """What a state does by itself when the job goes on with other ranks."""

    def _pauses_copies(self) -> bool:
        """Whether it is too early for a copy at the next boundary, by this rank's own clock."""
        return True

    # ---- for the loop

    def _at_boundary(self) -> None:
        self._marks.at_boundary()

    def _before_leaving(self, number: int) -> None:
        told, member = driver_notices.agree(number), membership.member()
        found = notices.notice(told, member) if told is not None and member is not None else None
        if found is not None:
            for callback in self._leave_callbacks:
                callback(found)

    def _read_messages(self) -> tuple[bool, int]:
        """Returns whether the program has put messages there, and what they say."""
        told, result = False, 0
        while not self._host_messages.empty():
            timestamp, update = self._host_messages.get()
            if not isinstance(timestamp, Repeated) and timestamp > self._last_updated_timestamp:
                self._last_updated_timestamp = timestamp
                told, result = True, result | int(update)
        return told, result


class ObjectState(State):
    """Every keyword is an attribute. Copies are deep: a list changed in place is undone, too.

    What has a state_dict(), such as a Cursor, is not copied itself, but its state_dict() is.
    """

    def __init__(
        self,
        bcast_object: Callable[..., Any] | None = None,
        get_rank: Callable[[], int] | None = None,
        **kwargs: Any,
    ) -> None:
        self._handlers: dict[str, StateHandler] = {}
        super().__init__(bcast_object, get_rank)
        for name, value in kwargs.items():
            setattr(self, name, value)
            handler = self._handler_of(value)
            if handler is not None:
                self._handlers[name] = handler
        self._attributes = tuple(name for name in kwargs if name not in self._handlers)
        self._pace = CopyPace()
        self._random = RandomStates(self._generators())
        self._copy: dict[str, Any] = {}
        self._kept: dict[str, Any] = {}
        self._copies_always = False  # in step()
        self._guard(self._handlers.values())
        self._make_copy()

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        handler = self.__dict__.get("_handlers", {}).get(name)
        if handler is not None and handler.value is not value:
            handler.set_value(value)
            self._guard([handler])

    def save(self) -> None:
        """Makes the copy to which restore() goes back."""
        self._at_boundary()
        self._make_copy()

    def restore(self) -> None:
        """Goes back to the last copy."""
        self._random.restore()
        self._set(self._copy)
        for handler in self._handlers.values():
            handler.restore()
        self._take_over()
        self._marks.tear()

    def sync(self) -> None:
        """Gives all ranks rank 0's state."""
        self._receive(0)
        self._make_copy()

    def reset(self) -> None:
        for handler in self._handlers.values():
            handler.reset()

    def step(self) -> None:
        """Ends a step without a copy of the weights, right behind the optimizer's step.

        After a failure the ranks agree which step is the last that one of them has finished.
        Copies are so rare that they take no more than a hundredth of any rank's time. All ranks
        make them at the same steps: they agree at the boundary before.
        """
        self._marks.steps = True
        self._at_boundary()
        self.behind_boundary()

    def behind_boundary(self) -> None:
        """What `step()` does with the other ranks, when the step is whole."""
        if self._copies_always or not self._pauses:
            before = time.monotonic()
            self._make_copy()
            self._pace.took(time.monotonic() - before)
        self.check_host_updates()

    def _pauses_copies(self) -> bool:
        return not self._pace.is_due()

    # ---- for the loop, and for the states of frameworks

    def _take_role(
        self, role: Role, source: int | None, position: int, changed: bool = False
    ) -> None:
        """Does what the assignment says: afterwards this rank has the job's state at `position`.

        `changed`: the ranks are others than before. What reset callbacks change, such as a
        learning rate, stays: nothing is restored behind them.
        """
        marks = self._marks
        self._pauses = 1
        if role is Role.RESTORE:
            self.restore()
        elif role is Role.RECEIVE:
            marks.tear()
        elif marks.steps:
            self._put_back_kept()
        if changed:
            self.on_reset()
        if source is not None:
            self._receive(source)
        marks.position = position
        if role is Role.RECEIVE or position == 0 or marks.copy != position:
            self._make_copy()
        self._keep()
        marks.whole = True
        marks.go_on()

    def _described(self) -> tuple[Pairs, Pairs]:
        """What the driver compares with the other members' states."""
        whole = self._marks.whole
        return alike(self._handlers), (fingerprints(self._handlers) if whole else ())

    def _progress(self) -> StateProgress:
        """For a report, when a generation has ended."""
        if any(handler.is_torn() for handler in self._handlers.values()):
            self._marks.tear()
        return self._marks.progress()

    def _at_boundary(self) -> None:
        super()._at_boundary()
        for handler in self._handlers.values():
            handler.at_boundary()
        self._keep()

    def _handler_of(self, value: Any) -> StateHandler | None:
        if isinstance(value, Cursor):
            return CursorHandler(value)
        return StateDictHandler(value) if has_state_dict(value) else None

    def _generators(self) -> Sequence[Generator]:
        """Of the random numbers that a step draws."""
        return OF_PYTHON, OF_NUMPY

    def _guard(self, handlers: Iterable[StateHandler]) -> None:
        """From now on, what these handlers guard tears the state before it changes."""
        if not all([handler.guard(self._marks.tear) for handler in handlers]):
            self._copies_always = True

    def _set(self, values: dict[str, Any]) -> None:
        for name, value in values.items():
            setattr(self, name, copy.deepcopy(value))

    def _values(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self._attributes}

    def _make_copy(self) -> None:
        """Without memory for a copy the job goes on, and cannot go back to one."""
        self._pauses = 1
        try:
            for handler in self._handlers.values():
                handler.save()
            if self._marks.steps:
                self._random.save()
            self._copy = copy.deepcopy(self._values())
        except Exception as error:
            if not self._is_out_of_memory(error):
                raise
            self._marks.copy = None  # what was there may be half of this one
            _log.warning(
                "there is no memory for a copy of the state, so the job cannot go back to this "
                "commit if a step fails in the middle on all ranks: %s", error,
            )  # fmt: skip
        else:
            self._marks.copied()

    def _is_out_of_memory(self, error: Exception) -> bool:
        return isinstance(error, MemoryError)

    def _keep(self) -> None:
        """Notes what a failed step would spoil, and what no optimizer's hook protects."""
        if self._marks.steps:
            for handler in self._handlers.values():
                handler.keep()
            self._random.keep()
            self._kept = copy.deepcopy(self._values())

    def _put_back_kept(self) -> None:
        self._random.put_back()
        self._set(self._kept)
        for handler in self._handlers.values():
            handler.put_back()
        self._take_over()

    def _receive(self, root: int) -> None:
        """All ranks call this. `root` sends what it has, and whether the program calls `step()`."""
        own = self._values(), self._marks.steps
        values, steps = self._bcast_object(own) if root == 0 else self._bcast_object(own, root)
        if self._rank() != root:
            self._set(values)
            self._marks.steps = self._marks.steps or steps
        for handler in self._handlers.values():
            handler.sync(root) if root else handler.sync()
        self._take_over()

    def receive_objects(self, root: int) -> None:
        """All ranks call this. They have the same tensors already: the rest is that of `root`."""
        self._set(self._bcast_object(self._values(), root))
        for handler in self._handlers.values():
            if isinstance(handler, StateDictHandler):
                handler.sync(root)
                handler.keep()
        self._take_over()
        self._random.keep()
        self._kept = copy.deepcopy(self._values())

    def _take_over(self) -> None:
        """A handler may have another value now, such as new arrays."""
        for name, handler in self._handlers.items():
            object.__setattr__(self, name, handler.value)


def always(copies: str) -> bool:
    """What the parameter `copies` of a state says: whether step() copies everything each time."""
    if copies not in _COPIES:
        raise ValueError(f"copies={copies!r} is not possible: expected 'auto' or 'always'")
    return copies == "always"


def _agreed(values: list[int]) -> list[int]:
    """The greatest of each on all ranks."""
    if not basics.is_initialized() or basics.warms_up() or basics.size() == 1:
        return values
    found = allreduce(np.array(values, np.int64), op=Max, name="elastic.boundary")
    return [int(value) for value in found]


def _answered() -> int:
    """The number of the last notice that the present assignment answers."""
    member = membership.member()
    return member.assignment.answers if member is not None and member.assignment is not None else 0
