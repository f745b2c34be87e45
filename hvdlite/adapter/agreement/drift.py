"""Whether the replicas of ranks have drifted apart: DECIDES, knows numbers, no tensors.

In each step every rank says WORDS bytes, and all ranks hear the largest that was said of each byte.
A rank says numbers and their complements, so all hear whether all have said the same. A rank that
has joined, or whose guard is off, says zeros, which change nothing.

The ranks of a step hear the same, so they draw the same conclusions without another message.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from enum import Enum

from hvdlite.adapter.agreement.presence import in_words

# What a rank says: where it is in its rounds, a digest, the complements of both, and whether it
# asks about numbers that are not finite (finite.py).
_FORM = struct.Struct("<IQIQB")
_PLACES, _DIGESTS = (1 << 32) - 1, (1 << 64) - 1
WORDS = _FORM.size

# A guard compares the parameters in at most so many parts, one after the other.
_PARTS = 8
# After a difference that was none, the guard leaves out so many rounds of comparisons.
_REST = 16

# What the ranks do in common. A guard that has reported waits until all parts have been equal.
WATCHING, REPORTED, RESTING = range(3)
_MOODS = 4

Groups = list[list[int]]  # ranks with equal contents, the largest group first


class Heard(Enum):
    """What the ranks have said in a step."""

    NO_DIGEST = 0
    EQUAL = 1
    DIFFERENT = 2
    OUT_OF_STEP = 3  # they count steps differently: one has just come, or returned from join()


def said(place: int, digest: int | None, asks: bool = False) -> bytes:
    """What a rank says. `digest`: of 64 bits, or None in a step without one."""
    if digest is None:
        return _FORM.pack(place, 0, place ^ _PLACES, 0, asks)
    return _FORM.pack(place, digest, place ^ _PLACES, digest ^ _DIGESTS, asks)


def is_asked(heard: bytes) -> bool:
    """Whether a rank asks about numbers that are not finite."""
    return heard[-1] > 0


def judge(heard: bytes) -> tuple[Heard, int]:
    """What was said, and the mood of the ranks that have said it."""
    place, digest, other_place, other_digest, _ = _FORM.unpack(heard)
    mood = place % _MOODS
    if place ^ other_place != _PLACES:
        return (Heard.OUT_OF_STEP if place or other_place else Heard.NO_DIGEST), mood
    if not (digest or other_digest):
        return Heard.NO_DIGEST, mood
    equal = digest ^ other_digest == _DIGESTS
    return (Heard.EQUAL if equal else Heard.DIFFERENT), mood


class Watch:
    """The rounds of a guard: which part is taken in which step, and what follows from what is
    heard.

    A part is taken in one step and said in the next one, so that a GPU need not be waited for. All
    parts are taken and said within `steps` steps.
    """

    def __init__(self, steps: int) -> None:
        self.parts = min(_PARTS, steps - 1)
        self._every = (steps - 1) // self.parts
        self._left = 0  # of rounds, until the guard watches again
        self.restart()

    def restart(self) -> None:
        """Counting begins anew."""
        self._count, self._mood = 0, WATCHING

    def says(self, digest: int | None, asks: bool = False) -> bytes:
        """The bytes of this step."""
        return said((self._count * _MOODS + self._mood) & _PLACES, digest, asks)

    def part(self) -> int | None:
        """Which part is taken in this step."""
        turn, step = divmod(self._count, self._every)
        return turn % self.parts if step == self._every - 1 else None

    def hears(self, heard: bytes) -> tuple[Heard, bool]:
        """What was said in this step, and whether the ranks look for the tensor now."""
        verdict, mood = judge(heard)
        self._count += 1
        if verdict is Heard.OUT_OF_STEP:
            self.restart()
        elif verdict is not Heard.NO_DIGEST and self._mood != WATCHING:
            again = verdict is Heard.DIFFERENT and self._mood == REPORTED
            self._left = self.parts if again else self._left - 1
            if self._left == 0:
                self._mood = WATCHING
        # by what was heard, so that a rank that has said nothing does the same as the others
        return verdict, verdict is Heard.DIFFERENT and mood == WATCHING

    def has_looked(self, found: bool) -> None:
        """The ranks have looked for the tensor."""
        self._mood, self._left = (REPORTED, self.parts) if found else (RESTING, _REST * self.parts)


def cuts(sizes: Sequence[int], parts: int) -> list[range]:
    """The numbers of the parameters of each part. Parts have about equally many bytes; some may be
    empty."""
    total, before, part_of = sum(sizes), 0, []
    for size in sizes:  # each where its middle is
        part_of.append((2 * before + size) * parts // (2 * total) if total else 0)
        before += size
    ends = [sum(each <= part for each in part_of) for part in range(parts)]
    ends[-1] = len(sizes)
    return [range(begin, end) for begin, end in zip([0, *ends], ends, strict=False)]


def differences(digests: Mapping[int, Sequence[int]]) -> dict[int, Groups]:
    """By number of a parameter, the groups of ranks that have the same contents, if there are
    several. `digests`: those of each rank. 0: the rank has left the parameter out."""
    found = {}
    for number, column in enumerate(zip(*digests.values(), strict=True)):
        groups: dict[int, list[int]] = {}
        for rank, digest in zip(digests, column, strict=True):
            groups.setdefault(digest, []).append(rank)
        if 0 not in groups and len(groups) > 1:
            found[number] = sorted(groups.values(), key=len, reverse=True)
    return found


def sentence(label: str, others: int, groups: Groups, step: int, equal_at: int | None) -> str:
    """A difference in words. `others`: how many more parameters differ; `step`: when it was found;
    `equal_at`: in which step the parameter was still the same on all ranks."""
    more = f" (and {others} more)" if others else ""
    ranks = sum(map(len, groups))
    odd = sorted(rank for group in groups[1:] for rank in group)
    if 2 * len(groups[0]) > ranks:
        who = (
            f"of {in_words(odd)} differs from that of the other {len(groups[0])} ranks, which agree"
        )
    elif ranks == 2:
        who = f"differs between rank {groups[0][0]} and rank {groups[1][0]}: two are no majority"
    else:
        each = "; ".join(in_words(group) for group in groups)
        who = f"differs, and no majority agrees: {each}"
    since = "" if equal_at is None else f"; it was still the same in step {equal_at}"
    return f"Parameter '{label}'{more} {who} (found in step {step} of this optimizer{since})."
