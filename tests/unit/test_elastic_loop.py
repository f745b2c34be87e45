"""The loop of `run` with a member whose generations are a list: no engine and no store."""

from __future__ import annotations

from typing import Any

import pytest

from hvdlite import elastic
from hvdlite.elastic import driver_notices, loop
from hvdlite.exceptions import Loss, MismatchError, PeerLostError
from hvdlite.job import membership
from hvdlite.job.membership import GenerationFailure, StateProgress
from hvdlite.rendezvous.documents import Assignment, Entry, RankNumbers, Role


class FakeMember:
    """`parts`: what the assignment of each generation says."""

    def __init__(self, parts: list[Role], positions: list[int]) -> None:
        self._rolls = [
            Assignment(g, (Entry(1, "here", 0, part),), position)
            for g, (part, position) in enumerate(zip(parts, positions, strict=True), 1)
        ]
        self.assignment = self._rolls.pop(0)
        self.numbers = RankNumbers(0, 1, 0, 1, 0, 1)
        self.source = None
        self.in_run = False
        self.progress = StateProgress()
        self.progresses: list[StateProgress] = []
        self.failure = GenerationFailure()
        self.said: list[str] = []

    @property
    def generation(self) -> int:
        return self.assignment.generation

    @property
    def entry(self) -> Entry:
        return self.assignment.members[0]

    def next(self) -> None:
        self.progresses.append(self.progress)
        self.assignment = self._rolls.pop(0)

    def has_failed(self, loss: Loss) -> None:
        self.said.append(f"lost {loss.ranks}")

    def trains(self) -> None:
        self.said.append("trains")

    def done(self) -> None:
        self.said.append("done")


@pytest.fixture
def in_generations(monkeypatch: pytest.MonkeyPatch) -> Any:
    def make(*generations: tuple[Role, int]) -> FakeMember:
        member = FakeMember(*map(list, zip(*generations, strict=True)))
        monkeypatch.setattr(membership, "_member", member)
        monkeypatch.setattr(loop.basics, "shutdown", lambda: None)
        monkeypatch.setattr(loop.basics, "init", member.next)
        monkeypatch.setattr(driver_notices, "start", lambda *_: None)
        return member

    return make


def _state(**kwargs: Any) -> elastic.ObjectState:
    return elastic.ObjectState(lambda value: value, lambda: 0, **kwargs)


def test_a_failure_goes_back_to_the_copy_and_calls_again(in_generations: Any) -> None:
    member = in_generations((Role.KEEP, 0), (Role.RESTORE, 1))
    state = _state(steps=0)
    seen = []

    @elastic.run
    def train(state: elastic.ObjectState) -> str:
        seen.append(state.steps)
        state.steps += 1
        state.commit()
        state.steps += 1
        if len(seen) == 1:
            raise PeerLostError("rank 1 is lost", 1)
        return "trained"

    assert train(state) == "trained"
    assert seen == [0, 1] and member.in_run
    assert member.progresses == [StateProgress(1, False, 1)]
    assert member.said == ["trains", "lost (1,)", "trains", "done"]


def test_a_planned_change_keeps_the_state(in_generations: Any) -> None:
    member = in_generations((Role.KEEP, 0), (Role.KEEP, 1))
    state = _state(steps=0)
    resets: list[str] = []
    state.register_reset_callbacks([lambda: resets.append("reset")])

    @elastic.run
    def train(state: elastic.ObjectState) -> int:
        if not resets:
            state.steps = 5
            state.on_hosts_updated(1, 2)
            state.commit()
        return int(state.steps)

    assert train(state) == 5 and resets == ["reset"]
    assert member.progresses == [StateProgress(1, True, 1)] and "done" in member.said


def test_a_mismatch_is_not_retried(in_generations: Any) -> None:
    member = in_generations((Role.KEEP, 0))

    @elastic.run
    def train(state: elastic.ObjectState) -> None:
        raise MismatchError("shapes differ")

    with pytest.raises(MismatchError):
        train(_state(steps=0))
    assert member.progresses == [] and member.said == ["trains"]


def test_a_foreign_state_is_restored_at_once_and_always_synchronised(in_generations: Any) -> None:
    member = in_generations((Role.KEEP, 0), (Role.RECEIVE, 7))
    done = []

    class Mine(elastic.State):
        def save(self) -> None:
            done.append("save")

        def restore(self) -> None:
            done.append("restore")

        def sync(self) -> None:
            done.append("sync")

    @elastic.run
    def train(state: Mine) -> None:
        state.commit()
        if "restore" not in done:
            raise PeerLostError("rank 1 is lost", 1)

    state = Mine(lambda value: value, lambda: 0)
    train(state)
    assert done == ["sync", "save", "restore", "sync", "save"]
    assert member.progresses == [StateProgress(1, False, 1)] and state._marks.position == 8
