"""`--collapse`: prints a line once, as `[0-3]<stdout>:`, if several ranks print it at about the
same time."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

# How long a line waits for other ranks to print it, too. A line that all ranks have printed does
# not wait.
MOMENT_SECONDS = 0.5
# More lines than this do not wait.
MOST_BYTES = 1 << 20


@dataclass
class HeldLine:
    """A line, and the ranks that have printed it."""

    line: bytes
    ranks: set[int]
    since: float


class HeldLines:
    """Lines that wait, the oldest first. The lines of each rank keep their order. Pure: times are
    arguments."""

    def __init__(self, ranks: Iterable[int]) -> None:
        self._all = set(ranks)
        self._held: deque[HeldLine] = deque()
        self._first = 0  # the number of the oldest line; the others follow it
        self._numbers: dict[bytes, deque[int]] = {}  # the numbers of equal lines
        self._last: dict[int, int] = {}  # the number of each rank's newest line
        self._bytes = 0

    def add(self, rank: int, line: bytes, now: float) -> None:
        """Adds a whole line of that rank."""
        equal = self._numbers.setdefault(line, deque())
        before = self._last.get(rank, -1)
        number = next((number for number in equal if number > before), None)
        if number is None:
            number = self._first + len(self._held)
            self._held.append(HeldLine(line, set(), now))
            self._bytes += len(line)
            equal.append(number)
        self._held[number - self._first].ranks.add(rank)
        self._last[rank] = number

    def take_due(self, now: float) -> list[HeldLine]:
        """Returns the lines that wait no longer."""
        found: list[HeldLine] = []
        while self._held and (
            now - self._held[0].since >= MOMENT_SECONDS
            or self._held[0].ranks >= self._all
            or self._bytes > MOST_BYTES
        ):
            found.append(self._pop())
        return found

    def take_until(self, rank: int) -> list[HeldLine]:
        """Returns the lines up to the newest of that rank."""
        return [self._pop() for _ in range(self._last.get(rank, -1) + 1 - self._first)]

    def take_all(self) -> list[HeldLine]:
        return [self._pop() for _ in range(len(self._held))]

    def add_rank(self, rank: int) -> None:
        """Lines wait for this rank as well."""
        self._all.add(rank)

    def expect(self, ranks: Iterable[int]) -> None:
        """Lines wait for these ranks from now on."""
        self._all = set(ranks)

    def remove_rank(self, rank: int) -> None:
        """This rank prints nothing more."""
        self._all.discard(rank)

    def due(self) -> float | None:
        """Returns when the oldest line has waited long enough."""
        return self._held[0].since + MOMENT_SECONDS if self._held else None

    def _pop(self) -> HeldLine:
        held = self._held.popleft()
        self._first += 1
        self._bytes -= len(held.line)
        numbers = self._numbers[held.line]
        numbers.popleft()
        if not numbers:
            del self._numbers[held.line]
        return held


class Collapse:
    """Merges one stream, stdout or stderr, of all ranks. `emit`: the sink's.

    In an elastic job its sources are members, whose ranks change.
    """

    def __init__(
        self, name: str, ranks: Iterable[int], emit: Callable[[bytes, list[bytes]], None]
    ) -> None:
        self._name, self._emit = name, emit
        self._held = HeldLines(ranks)
        self._numbers: dict[int, int] = {}  # the ranks of sources that are members
        # ranks in the middle of a line that has been partly shown
        self._unfinished: set[int] = set()

    def start(self, source: int, rank: int, awaited: bool) -> None:
        """A member that is told this rank. `awaited`: lines wait for it."""
        self._numbers[source] = rank
        if awaited:
            self._held.add_rank(source)

    def renumber(self, ranks: Mapping[int, int]) -> None:
        """The ranks of all members from now on. What waits was printed under the old ones."""
        self._show(self._held.take_all())
        self._held.expect(ranks)
        self._numbers.update(ranks)

    def put(self, rank: int, lines: Sequence[bytes], now: float) -> None:
        for line in filter(None, lines):
            if line.endswith(b"\n") and rank not in self._unfinished:
                self._held.add(rank, line, now)
                continue
            self._show(self._held.take_until(rank))
            self._emit(self._prefix({rank}), [line])
            change = (
                self._unfinished.discard if line.endswith((b"\n", b"\r")) else self._unfinished.add
            )
            change(rank)
        self.tick(now)

    def tick(self, now: float) -> None:
        self._show(self._held.take_due(now))

    def wait(self, now: float) -> float | None:
        """Returns the seconds until tick() has something to do."""
        due = self._held.due()
        return None if due is None else max(0.0, due - now)

    def end(self, rank: int) -> None:
        """The stream of that rank has ended."""
        self._held.remove_rank(rank)
        self.tick(float("-inf"))

    def _show(self, due: Iterable[HeldLine]) -> None:
        for held in due:
            self._emit(self._prefix(held.ranks), [held.line])

    def _prefix(self, ranks: Iterable[int]) -> bytes:
        numbers = {self._numbers.get(rank, rank) for rank in ranks}
        return f"[{ranges(numbers)}]<{self._name}>:".encode()


def ranges(numbers: Iterable[int]) -> str:
    """Returns ranges such as 0-3,7."""
    # Within a run of neighbours, number minus position is constant.
    runs = itertools.groupby(enumerate(sorted(numbers)), lambda pair: pair[1] - pair[0])
    ends = ([number for _, number in run] for _, run in runs)
    return ",".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in ends)
