"""In each step of an optimizer the ranks exchange which gradients they have, in the words of
presence.py. The words of the drift guard are in the same message."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np

from hvdlite.adapter.agreement import drift, presence
from hvdlite.adapter.agreement.drift_guard import DriftGuard
from hvdlite.adapter.step import Options
from hvdlite.base.operations import ALLREDUCE
from hvdlite.base.ops import Max
from hvdlite.core.arrays.objects import allgather_object
from hvdlite.core.arrays.ops import OPS
from hvdlite.core.engine import run_now
from hvdlite.core.operations import Call
from hvdlite.exceptions import MismatchError

Words = np.ndarray[Any, Any]

_NONE: Mapping[int, int] = {}
_run = OPS.run_one


class PresenceExchange:
    """Parameters have places: the frozen ones, too."""

    def __init__(self, settings: Options, guard: DriftGuard) -> None:
        self._settings = settings
        self._guard = guard
        self._name = f"{settings.scope}gradients present"
        self.labels: list[str] = []  # for people, by place
        self._trained: list[int] = []
        # what ranks say that have all gradients, none of them sparse
        self._usual: Words | None = None

    def expect(self, label: str) -> int:
        """A parameter of the optimizer, whether it is trained or frozen. Returns its place."""
        self.labels.append(label)
        self._usual = None
        return len(self.labels) - 1

    def train(self, place: int) -> None:
        """From now on this parameter gets gradients."""
        self._trained.append(place)
        self._usual = None

    def exchange(
        self,
        lacking: Collection[int] = (),
        sparse: Mapping[int, int] = _NONE,
        meanwhile: Callable[[], None] | None = None,
    ) -> list[int] | None:
        """What the ranks have, by place, for presence.said_of(). None: all have all gradients, and
        dense ones.

        `sparse`: how many dimensions are, of which gradient. `meanwhile` is called while the words
        are in flight. MismatchError if ranks can never agree.
        """
        if self._usual is None:
            self._usual = self._words((), {})
        usual = self._usual
        mine = self._words(lacking, sparse) if lacking or sparse else usual
        words = np.concatenate((mine, self._guard.words()))
        try:
            everything = self._spoken(words, meanwhile)
        except MismatchError as error:
            raise MismatchError(
                "Ranks have different numbers of parameters in this optimizer: add_param_group() "
                "has to be called on all ranks, between the same steps. (Each rank says two "
                f"numbers of each parameter, and {drift.WORDS} more: {error})"
            ) from error
        heard = everything[: len(mine)]
        self._guard.hear(everything[len(mine) :])
        if mine is usual and (heard == usual).all():
            return None
        said: list[int] = heard.tolist()
        found = presence.verdict(said)
        self._refuse(found.trained_differently, mine)
        if not self._settings.sparse_as_dense:
            self._refuse(found.of_both_kinds, mine)
        return said

    def _spoken(self, words: Words, meanwhile: Callable[[], None] | None) -> Words:
        """The largest of all ranks' words."""
        process_set = self._settings.process_set
        if meanwhile is None:
            largest: Words = _run(words, ALLREDUCE, self._name, process_set, Max)
            return largest
        pending = OPS.start(Call(ALLREDUCE, self._name, process_set, Max), [words])
        meanwhile()
        largest = run_now(pending)
        return largest

    def _words(self, lacking: Collection[int], sparse: Mapping[int, int]) -> Words:
        return np.array(presence.words(len(self.labels), self._trained, lacking, sparse), np.uint8)

    def _refuse(self, places: Sequence[int], mine: Words) -> None:
        """Ends the step on all ranks, which have heard the same and are here, if there is one of
        these."""
        if not places:
            return
        own = presence.kind(presence.said_of(places[0], mine.tolist()))
        process_set = self._settings.process_set
        kinds = allgather_object(own, f"{self._settings.scope}gradients differ", process_set)
        ranks = process_set.ranks or range(len(kinds))
        label = self.labels[places[0]]
        raise MismatchError(
            presence.sentence(label, len(places) - 1, dict(zip(ranks, kinds, strict=True)))
        )
