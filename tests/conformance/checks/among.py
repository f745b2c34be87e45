"""The process sets to try an operation in, and what an operation gives in one."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from tier import is_turn

import hvdlite as hvd
from checks import Skipped
from checks.api import Way, api
from checks.here import Here

# What each member contributes, and what this one gets.
Case = tuple[Sequence[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Among:
    """A process set to try, and who is in it."""

    process_set: hvd.ProcessSet
    members: tuple[int, ...]
    here: Here

    @property
    def mine(self) -> int:
        return self.members.index(self.here.rank)

    @property
    def is_everyone(self) -> bool:
        return len(self.members) == self.here.size

    @classmethod
    def all_of(cls, here: Here) -> Among:
        return cls(hvd.global_process_set, tuple(here.ranks), here)

    def of(self, everyones: list[np.ndarray]) -> list[np.ndarray]:
        """What the members contribute, in their order."""
        return [everyones[rank] for rank in self.members]

    def _alike(self, how: dict[str, Any]) -> str:
        """What all members agree about, of the arguments of an operation."""
        agreed = ("op", "prescale_factor", "postscale_factor", "root_rank")
        return f"{self.members} {[how.get(name) for name in agreed]}"

    def expect(
        self,
        way: Way,
        cases: Sequence[Case],
        exact: bool | None = None,
        may_be_given: bool = False,
        **how: Any,
    ) -> list[Any]:
        """Runs an operation on a tensor of each case, and compares the results with what is wanted.

        Returns what alltoall says beside its results. `may_be_given`: a result may be the tensor
        itself. Of what is traced, which takes its time, a shorter tier takes a third.
        """
        if way.traced and not is_turn(f"{self.here.check} {way.label} {self._alike(how)}", 3):
            return []
        chosen = _some_of_each_dtype(cases) if way.traced else cases
        mine = [api.tensor(inputs[self.mine]) for inputs, _ in chosen]
        beside = []
        results = way.run(mine, process_set=self.process_set, **how)
        for (inputs, want), given, result in zip(chosen, mine, results, strict=True):
            what = f"{way.label} {how} in {self.members}: {inputs[0].dtype} {inputs[0].shape}"
            if isinstance(result, tuple):
                result, received = result
                beside.append(received)
            got = api.array(result)
            self.here.close(got, want, what, exact)
            itself = result is given
            assert itself == way.in_place or (may_be_given and itself), (
                f"{what}: the tensor itself only in place"
            )
            if not way.in_place:
                assert api.array(given).tobytes() == inputs[self.mine].tobytes(), (
                    f"{what}: the input was written to"
                )
            if self.is_everyone:
                self.here.saw(got)
        return beside


def _some_of_each_dtype(cases: Sequence[Case]) -> list[Case]:
    """All of float32, and the last of each other dtype: tracing and compiling takes its time."""
    last = {str(inputs[0].dtype): number for number, (inputs, _) in enumerate(cases)}
    some = set(last.values())
    return [
        case
        for number, case in enumerate(cases)
        if number in some or str(case[0][0].dtype) == "float32"
    ]


@contextlib.contextmanager
def process_sets(here: Here) -> Iterator[list[Among]]:
    """The global set and some others; only those that this rank is in."""
    wanted = [(0,), tuple(range(1, here.size)), (0, here.size - 1)]
    wanted = [
        w for i, w in enumerate(wanted) if w and len(set(w)) < here.size and w not in wanted[:i]
    ]
    wanted = [w for w in wanted if len(set(w)) == len(w)]
    added = [(hvd.add_process_set(list(w)), w) for w in wanted]
    everybody = [(hvd.global_process_set, tuple(here.ranks)), *added]
    skipped = None
    try:
        yield [Among(s, members, here) for s, members in everybody if here.rank in members]
    except Skipped as reason:  # on all ranks, unlike a failure: removing takes all of them
        skipped = reason
    for process_set, _ in added:
        hvd.remove_process_set(process_set)
    if skipped is not None:
        raise skipped
