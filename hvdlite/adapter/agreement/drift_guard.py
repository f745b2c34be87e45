"""The drift guard: digests of parameters travel with a message of each step, and a difference is
named. drift.py decides what follows from what is heard."""

from __future__ import annotations

import math
import os
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from hvdlite.adapter import names
from hvdlite.adapter.agreement import drift, finite
from hvdlite.base import knobs
from hvdlite.base.operations import ALLREDUCE
from hvdlite.base.ops import Max, Sum
from hvdlite.core import engine
from hvdlite.core.arrays.ops import OPS
from hvdlite.core.process_sets import ProcessSet, global_process_set
from hvdlite.exceptions import MismatchError
from hvdlite.job import basics

Words = np.ndarray[Any, Any]

_ADVICE = (
    "A broadcast at the start is missing, or a rank has skipped a step, or the update is not the "
    "same on all ranks, or memory is damaged: see docs/guides/troubleshooting.md. "
    "HVDLITE_DRIFT=error makes this an error; =off turns the drift guard off."
)

_NOT_FINITE = (
    "Look at the first rank's data of that step and at the memory errors of its host; a learning "
    "rate that is too high makes all ranks infinite. HVDLITE_NAN_WATCH=1 names the tensor: see "
    "docs/guides/troubleshooting.md. HVDLITE_DRIFT=off turns the drift guard off."
)

_run = OPS.run_one

# After a NaN anywhere, gradients are NaN everywhere. So a look at a part is one at so many of its
# parameters, and at so many elements of each.
LOOKED_AT, SAMPLE = 4, 256

Look = Callable[[], bool]


class Taken(NamedTuple):
    """What was read of parameters."""

    digests: Sequence[int]
    is_finite: bool | None  # by samples of some; None: there is none


class Replica(NamedTuple):
    """A parameter, and its name for people."""

    label: str
    parameter: Any


class Reader(Protocol):
    """What the guard must know of a framework's parameters."""

    def size(self, parameter: Any) -> int:
        """The bytes."""

    def take(self, parameters: Sequence[Any]) -> Callable[[], Taken]:
        """What the parameters hold now; the function returned may wait for it."""

    def is_finite(self, parameter: Any) -> bool:
        """Of a sample of it. Waits."""

    def observe(self, parameters: Sequence[Any]) -> Callable[[], Look | None]:
        """From now on sees what this rank alone computes in each step. The function returned is
        called once per step and returns a look at it, which may wait; None: there was nothing."""

    def exact(self, parameter: Any) -> int:
        """A digest that is the same if the values are, wherever these lie in memory. All NaNs are
        the same."""


class DriftGuard:
    """Compares the `replicas` of the members of a process set: anything with a label and a
    parameter. More may be added to the list, on all members alike."""

    def __init__(
        self, name: str, process_set: ProcessSet, replicas: Sequence[Any], reader: Reader
    ) -> None:
        values = knobs.resolve(os.environ)
        self._name = f"{name}drift"
        self._process_set = process_set
        self._replicas = replicas
        self._reader = reader
        self._mode = values["drift"]
        self._watch = drift.Watch(int(values["drift_steps"]))
        self._left_out: dict[int, Any] = {}  # by identity, which the parameters keep valid
        self._cuts: list[range] = []
        self._cut = -1  # how many replicas have been cut
        self._taken: Callable[[], Taken] | None = None
        self._notes = finite.Notes(self._watch.parts)
        self._observed: Callable[[], Look | None] | None = None
        self._look_at: Look | None = None  # at what this rank alone has computed in the step before
        self._look_at_next: Look | None = None
        self._part = self._said = 0  # what was taken last, and what is being said
        self._era = basics.incarnation()
        self._equal_at: dict[int, int] = {}  # by part, the step in which it was taken
        self.steps = 0
        self.compared = 0  # digests that were the same on all ranks, or were not

    def leave_out(self, parameters: Iterable[Any]) -> None:
        """These may differ. All members must say so, between the same steps."""
        self._left_out.update((id(parameter), parameter) for parameter in parameters)
        self._cut = -1

    def leaves_out(self, parameter: Any) -> bool:
        """Whether the parameter may differ."""
        return id(parameter) in self._left_out

    def is_known_to_differ(self) -> None:
        """A difference was reported to all members. The guard is silent until there is none."""
        self._watch.has_looked(found=True)

    def see(self, look: Look) -> None:
        """Says, before the step's words, whether something is finite that this rank alone has
        computed in the step: a loss. It is called a step later, and may wait."""
        self._look_at_next = look

    def compare(self) -> None:
        """A step, with a message of its own. MismatchError on all members, if
        HVDLITE_DRIFT=error."""
        words = self.words()
        self.hear(_run(words, ALLREDUCE, f"{self._name} words", self._process_set, Max))

    def words(self) -> Words:
        """What this rank says in this step."""
        if self._mode == "off":
            return np.zeros(drift.WORDS, np.uint8)
        self.steps += 1
        if self._era != basics.incarnation():  # what was taken before a resize, others never say
            self._era, self._taken = basics.incarnation(), None
            self._watch.restart()
        self._note_last_step()
        digest = None
        if self._taken is not None:
            taken = self._taken()
            digest = engine.digests([np.array(taken.digests, np.uint64)])[0]
            self._notes.kept(self.steps - 1, taken.is_finite)
        words = self._watch.says(digest, self._notes.asks)
        self._said, self._taken = self._part, None
        part = self._watch.part()
        if part is not None:
            self._part = part
            self._taken = self._reader.take(self._of_part(part))
        return np.frombuffer(words, np.uint8)

    def hear(self, words: Words) -> None:
        """What the members have said in this step: the largest of each byte."""
        verdict, looks = self._watch.hears(words.tobytes())
        if verdict is drift.Heard.OUT_OF_STEP:
            self._taken = None
        elif verdict is not drift.Heard.NO_DIGEST:
            self.compared += 1
            if verdict is drift.Heard.EQUAL:
                self._equal_at[self._said] = self.steps - 1
        if looks:
            self._look()
        if drift.is_asked(words.tobytes()):
            self._tell_finite()

    def _note_last_step(self) -> None:
        """What this rank alone has computed in the step before."""
        if self._look_at is not None:
            self._notes.alone(self.steps - 1, self._look_at())
        if self._observed is None:
            self._observed = self._reader.observe([each.parameter for each in self._replicas])
        self._look_at, self._look_at_next = self._look_at_next or self._observed(), None

    def _of_part(self, part: int) -> list[Any]:
        if self._cut != len(self._replicas):
            self._cut = len(self._replicas)
            sizes = [
                0 if self.leaves_out(each.parameter) else self._reader.size(each.parameter)
                for each in self._replicas
            ]
            self._cuts = drift.cuts(sizes, self._watch.parts)
            self._equal_at.clear()
        parameters = (self._replicas[number].parameter for number in self._cuts[part])
        return [each for each in parameters if not self.leaves_out(each)]

    def _tell_finite(self) -> None:
        """All members tell since when their numbers are not finite."""
        wrong = [
            number
            for number, replica in enumerate(self._replicas)
            if not (self.leaves_out(replica.parameter) or self._reader.is_finite(replica.parameter))
        ]
        told = self._notes.told(self.steps, wrong[0] if wrong else -1, max(len(wrong) - 1, 0))
        everyones = self._everyones(np.array(told, np.int64), "finite")
        sentence = finite.sentence(
            {rank: finite.Told(*row) for rank, row in everyones.items()},
            self._replicas[wrong[0]].label if wrong else "",
            self.steps,
        )
        if sentence and engine.rank() == min(everyones):
            warnings.warn(f"{sentence} {_NOT_FINITE}", stacklevel=2)

    def _everyones(self, mine: Words, what: str) -> dict[int, list[int]]:
        """The rows of all members but those that have joined, by rank."""
        ranks = engine.members_of(self._process_set)
        rows = np.zeros((len(ranks), 1 + len(mine)), mine.dtype)
        own = rows[ranks.index(engine.rank())]
        own[0], own[1:] = 1, mine  # a member that has joined says nothing
        name = f"{self._name} {what}".rstrip()
        heard = _run(rows, ALLREDUCE, name, self._process_set, Sum)
        return {rank: row[1:].tolist() for rank, row in zip(ranks, heard, strict=True) if row[0]}

    def _look(self) -> None:
        """All members tell the digests of all parameters."""
        mine = np.zeros(len(self._replicas), np.uint64)
        for number, replica in enumerate(self._replicas):
            if not self.leaves_out(replica.parameter):
                mine[number] = self._reader.exact(replica.parameter) or 1
        present = self._everyones(mine, "")
        found = drift.differences(present)
        self._watch.has_looked(bool(found))
        if found:
            self._report(found, first=min(present))

    def _report(self, found: dict[int, drift.Groups], first: int) -> None:
        number, groups = next(iter(found.items()))
        equal_at = [
            self._equal_at.get(part) for part, cut in enumerate(self._cuts) if number in cut
        ]
        sentence = drift.sentence(
            self._replicas[number].label,
            len(found) - 1,
            groups,
            self.steps,
            equal_at[0] if equal_at else None,
        )
        if self._mode == "error":
            raise MismatchError(f"{sentence} {_ADVICE}")
        if engine.rank() == first and self._mode == "warn":
            warnings.warn(f"{sentence} {_ADVICE}", stacklevel=2)


# ---- of parameters that become arrays of numpy, and of loops that hand them over in each step

Array = np.ndarray[Any, Any]


class ArrayReader:
    """See hvdlite.adapter.agreement.drift_guard.Reader. `contents`: what a parameter holds now."""

    def __init__(self, contents: Callable[[Any], Any]) -> None:
        self._contents = contents

    def size(self, parameter: Any) -> int:
        return math.prod(parameter.shape)  # of elements, which nearly always have the same size

    def take(self, parameters: Sequence[Any]) -> Callable[[], Taken]:
        arrays = [self._array(parameter) for parameter in parameters]
        is_finite = all(map(_is_finite, arrays[-LOOKED_AT:])) if arrays else None
        taken = Taken(engine.digests(arrays), is_finite)
        return lambda: taken

    def is_finite(self, parameter: Any) -> bool:
        return _is_finite(self._array(parameter))

    def observe(self, parameters: Sequence[Any]) -> Callable[[], Look | None]:
        """Nothing: see DriftGuard.see()."""
        return lambda: None

    def exact(self, parameter: Any) -> int:
        values = self._array(parameter)
        unlike_itself = values != values  # noqa: PLR0124  # NaN, whatever the type is
        if np.any(unlike_itself):
            values = np.where(unlike_itself, np.array(np.nan, values.dtype), values)
        return engine.digests([values])[0]

    def _array(self, parameter: Any) -> Array:
        return np.ascontiguousarray(self._contents(parameter))


def _is_finite(array: Array) -> bool:
    return bool(np.isfinite(array.reshape(-1)[:SAMPLE]).all())


class _Place:
    """A parameter by its place among those of the latest step."""

    def __init__(self, label: str, number: int, latest: StepGuard) -> None:
        self.label = label
        self._number, self._latest = number, latest

    @property
    def parameter(self) -> Any:
        return self._latest.parameters[self._number]


class StepGuard(ABC):
    """Whether the parameters of all ranks stay the same: see docs/guides/troubleshooting.md.

        guard = hvd.DriftGuard()
        for batch in data:
            params, state = train_step(params, state, batch)
            guard.compare(params)

    All members of `process_set` call compare() equally often. Most calls read none of the
    parameters, and none reads all. This is the class of each framework's DriftGuard.
    """

    def __init__(self, process_set: ProcessSet = global_process_set) -> None:
        self.parameters: Sequence[Any] = []
        self._process_set = process_set
        self._places: list[_Place] = []
        self._structure: Any = None
        name = f"{names.scope()}steps."
        self._guard = DriftGuard(name, process_set, self._places, ArrayReader(self.contents))

    @abstractmethod
    def contents(self, parameter: Any) -> Any:
        """What becomes an array of numpy."""

    @abstractmethod
    def flat(self, parameters: Any) -> tuple[Sequence[Any], Any]:
        """All parameters, and something that is equal as long as they are the same ones."""

    @abstractmethod
    def labels(self, parameters: Any) -> Sequence[str]:
        """Their names for people."""

    @abstractmethod
    def is_recorded(self) -> bool:
        """Whether the framework records what the caller does."""

    @property
    def compared(self) -> int:
        """How often parts of the parameters were compared."""
        return self._guard.compared

    def compare(self, parameters: Any, loss: Any = None) -> None:
        """Compares a part of the parameters in some of the calls. Raises MismatchError on all ranks
        if one differs and HVDLITE_DRIFT=error.

        With this rank's `loss` of the step, which is read in the next call, the guard can say on
        which rank numbers were not finite first.
        """
        if self.is_recorded():
            raise RuntimeError(
                "DriftGuard.compare() was called in a function that is being compiled "
                "(tf.function, jax.jit): call it after the function, in the loop over the batches"
            )
        if basics.size() == 1 or not self._process_set.included():
            return
        self.parameters, structure = self.flat(parameters)
        if self._structure is None or structure != self._structure:
            self._structure = structure
            labels = enumerate(self.labels(parameters))
            self._places[:] = [_Place(label, number, self) for number, label in labels]
            self._guard.leave_out(())  # what was cut is out of date
        if loss is not None:
            self._guard.see(lambda: bool(np.isfinite(np.asarray(self.contents(loss))).all()))
        self._guard.compare()
