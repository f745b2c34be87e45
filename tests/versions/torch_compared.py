"""What torch's own tests say of the backend hvdlite, beside gloo. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Result:
    """Of one test over one backend: see torch_child.py."""

    test: str
    outcome: str  # passed, failed, skipped
    why: str
    seconds: float
    groups: int  # of hvdlite that it has made


@dataclass
class Compared:
    """One file over both backends."""

    file: str
    gloo: Mapping[str, int]  # how many tests have which outcome
    hvdlite: Mapping[str, int]
    over_hvdlite: int  # tests that passed and made a group of hvdlite
    worse: list[str] = field(default_factory=list)  # what gloo passes, hvdlite does not
    known: list[str] = field(default_factory=list)  # of these, those with a reason
    better: list[str] = field(default_factory=list)

    @property
    def unexplained(self) -> list[str]:
        return [test for test in self.worse if test not in self.known]


def compare(
    file: str, gloo: Sequence[Result], hvdlite: Sequence[Result], reasons: Mapping[str, str]
) -> Compared:
    """A test that did not run over hvdlite counts as failed there: the run has died in it."""
    theirs = {each.test: each for each in gloo}
    ours = {each.test: each for each in hvdlite}
    passed = {test for test, each in ours.items() if each.outcome == "passed"}
    worse = [
        test for test, each in theirs.items() if each.outcome == "passed" and test not in passed
    ]
    better = [test for test in ours if test in passed and theirs[test].outcome == "failed"]
    return Compared(
        file,
        Counter(each.outcome for each in gloo),
        Counter(each.outcome for each in hvdlite),
        sum(ours[test].groups > 0 for test in passed),
        worse,
        [test for test in worse if test in reasons],
        better,
    )
