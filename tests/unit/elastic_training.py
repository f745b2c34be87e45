"""Pretended ranks that train, die at every point, and agree by `last_step.decide` on the last step.

A state is a node: its parent, its position and the samples of its step. What a rank does between
two generations is a program of small acts; a collective one completes only where all members have
entered it, and after a death on some of them only.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field

from hvdlite.rendezvous.documents import Report, Role
from hvdlite.rendezvous.last_step import Decision, Inconsistent, decide

REDUCTIONS = 2
TENSORS = 4  # that a step changes
CHUNKS = 2


@dataclass(frozen=True)
class State:
    """`ranks` took the step that led here from `parent`."""

    parent: State | None
    position: int
    first: int  # sample of the step
    end: int
    made_by: object = None

    def after(self, ranks: tuple[int, ...], batch: int) -> State:
        return State(self, self.position + 1, self.end, self.end + batch * len(ranks), ranks)


@dataclass(eq=False)
class Rank:
    number: int
    state: State
    copy: State | None
    newcomer: bool = True
    whole: bool = True
    sent: int = 0  # chunks of its state
    entered: int = 0  # collectives of this generation
    passed: int = 0  # boundaries of this generation
    program: Iterator[bool] | None = None

    @property
    def position(self) -> int:
        return self.state.position

    @property
    def copied(self) -> int:
        return -1 if self.copy is None else self.copy.position

    def report(self) -> Report:
        copy = None if self.copy is None else self.copied
        return Report(self.number, 1, self.position, self.whole, copy=copy, newcomer=self.newcomer)


@dataclass
class Training:
    """One history."""

    rng: random.Random
    copies: bool = True
    batch: int = 3
    started: int = 0
    changes: int = 0
    back_to_copies: int = 0  # how often
    ranks: list[Rank] = field(default_factory=list)
    members: list[Rank] = field(default_factory=list)  # of the generation, the dead as well

    def new_ranks(self, count: int) -> None:
        for _ in range(count):
            self.started += 1
            built = State(None, 0, 0, 0, made_by=self.started)
            self.ranks.append(Rank(self.started, built, built if self.copies else None))

    # A rank's program. It yields True where it waits for others.

    def _program(self, rank: Rank, decision: Decision) -> Iterator[bool]:
        yield from self._takes_its_state(rank, decision)
        rank.newcomer = False
        assert rank.whole, "it trains on with half a step"
        while True:
            yield from self._step(rank)

    def _takes_its_state(self, rank: Rank, decision: Decision) -> Iterator[bool]:
        part = decision.roles[rank.number]
        if part is Role.RESTORE:
            rank.whole = False
            yield False
            assert rank.copy is not None
            rank.state, rank.whole = rank.copy, True
        source = next((each for each in self.ranks if each.number == decision.source), None)
        for chunk in range(CHUNKS if decision.source is not None else 0):
            if part is not Role.RECEIVE:
                assert rank.whole, "it sends or keeps half a step"
                rank.sent = chunk + 1
                yield False
                continue
            while source is None or source.sent <= chunk:
                yield True
            rank.whole = False
            yield False
        if part is Role.RECEIVE:
            assert source is not None and source.sent == CHUNKS
            rank.state, rank.whole = source.state, True

    def _step(self, rank: Rank) -> Iterator[bool]:
        for number in range(REDUCTIONS):
            yield from self._collective(rank)
            if number == 0:
                self._check()
        for _ in range(TENSORS):
            rank.whole = False
            yield False
        # Some copy more seldom than others, as their copies take longer.
        numbers = tuple(each.number for each in self.members)
        rank.state, rank.whole = rank.state.after(numbers, self.batch), True
        if self.copies and self.rng.random() < 0.3:
            rank.copy = rank.state
        yield False
        yield from self._collective(rank)  # the Max of a boundary
        rank.passed += 1
        yield False

    def _collective(self, rank: Rank) -> Iterator[bool]:
        rank.entered += 1
        mine = rank.entered
        yield False
        while any(each.entered < mine for each in self.members):
            yield True

    def _check(self) -> None:
        """All are in the first reduction of a step, or beyond it: where they stand is one state."""
        behind = min(self.members, key=lambda each: each.position)
        for each in self.members:
            ancestor = each.state if each.position == behind.position else each.state.parent
            assert ancestor == behind.state, "two states in one generation"

    # Generations.

    def generation(self, deaths: bool) -> bool:
        """Forms one, trains and ends it by deaths or at a boundary. False: the job has ended."""
        holders = [rank for rank in self.ranks if not rank.newcomer]
        if not self.ranks or (self.changes and not holders):
            return False
        self.ranks.sort(key=lambda rank: rank.newcomer)
        whole = [rank for rank in holders if rank.whole]
        try:
            decision = decide([rank.report() for rank in self.ranks])
        except Inconsistent:
            assert not whole and not self.copies
            return False
        if any(rank.position for rank in holders):
            newest = [rank.position for rank in whole] or [rank.copied for rank in holders]
            assert decision.position == max(newest), "a step is lost"
            self.back_to_copies += not whole
        self.changes += 1
        self.members = list(self.ranks)
        for rank in self.members:
            rank.sent = rank.entered = rank.passed = 0
            rank.program = self._program(rank, decision)
        if deaths:
            self._until_deaths()
        else:
            self._until_a_boundary()
        return True

    def _go_on(self, rank: Rank) -> bool:
        assert rank.program is not None
        return next(rank.program)

    def _until_deaths(self) -> None:
        rng = self.rng
        for _ in range(rng.choice([0, 3, 10, 40, 150, 300])):
            self._go_on(rng.choice(self.members))
        count = 1 if rng.random() < 0.7 else rng.randint(1, len(self.members))
        first = self.members[0]
        dead = rng.sample(self.members, count)
        if rng.random() < 0.3 and first not in dead:
            dead[0] = first  # rather often the source
        for rank in self.members:
            if rank not in dead:
                for _ in range(rng.choice([0, 0, 1, 2, 5, 20])):
                    if self._go_on(rank):
                        break
        self.ranks = [rank for rank in self.members if rank not in dead]

    def _until_a_boundary(self) -> None:
        """All have passed the Max of one step and no further act; then some leave."""
        last = self.rng.randint(1, 4)
        while behind := [rank for rank in self.members if rank.passed < last]:
            self._go_on(self.rng.choice(behind))
        assert len({rank.state for rank in self.members}) == 1
        leave = self.rng.choice([0, self.rng.randint(0, len(self.members) - 1)])
        self.ranks = self.members[leave:]


def history(state: State) -> list[State]:
    """From the first step."""
    found = []
    at: State | None = state
    while at is not None:
        found.append(at)
        at = at.parent
    return found[::-1]


def live(rng: random.Random, changes: int) -> Training:
    training = Training(rng, copies=rng.random() < 0.9, batch=rng.randint(1, 4))
    training.new_ranks(rng.randint(1, 5))
    for _ in range(changes):
        if not training.generation(deaths=rng.random() < 0.8):
            break
        for rank in training.ranks:
            _check_history(rank.state)
        if len(training.ranks) < 6 and rng.random() < 0.6:
            training.new_ranks(rng.randint(1, 3))
    return training


def _check_history(state: State) -> None:
    """Positions without a gap, and each sample once."""
    steps = history(state)
    assert [step.position for step in steps] == list(range(len(steps)))
    for before, after in zip(steps, steps[1:], strict=False):
        assert after.first == before.end
