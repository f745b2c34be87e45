"""What the native core knows of generations, in a process that is alone in one."""

from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from hvdlite import _core
from hvdlite.job import basics
from hvdlite.job.arrival import Arrival
from hvdlite.job.membership import Membership
from hvdlite.rendezvous.documents import Assignment, Entry, RankNumbers, Role

_PROGRAM = """
from hvdlite import _core

def init(generation):
    _core.init(rank=0, size=1, store=None, store_prefix="g5/", secret=None, knobs={},
               process_sets=[], release="0", generation=generation)

for impossible in ((0, "nonce", 0, 0), (5, "nonce", -1, 0), (5, "nonce", 0, -1)):
    try:
        init(impossible)
    except ValueError as error:
        assert "a generation has a number, a nonce, a slot and seconds" in str(error), error
    else:
        raise AssertionError(impossible)
init((5, "nonce", 3, 4))
for other in (4, 6, -1):
    _core.end_generation(other, "news that come late")
    assert _core.failure() == ""
_core.end_generation(5, "hvdliterun has lost member 2 (rank 1)")
assert _core.failure() == "hvdliterun has lost member 2 (rank 1)"
_core.shutdown(1.0)
_core.end_generation(5, "again")
"""


def test_only_news_about_the_present_generation_end_its_engine() -> None:
    done = subprocess.run([sys.executable, "-c", _PROGRAM], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "warning: generation 5 has ended: hvdliterun has lost member 2" in done.stderr
    assert "the job has failed" not in done.stderr


@pytest.mark.parametrize("patience", [None, 4])
def test_a_short_patience_is_of_the_meeting_alone(
    monkeypatch: pytest.MonkeyPatch, patience: int | None
) -> None:
    """Process sets that are added later have the start timeout."""
    given: dict[str, Any] = {}
    monkeypatch.setattr(_core, "init", lambda **arguments: given.update(arguments))
    assignment = Assignment(3, (Entry(1, "a", 0, Role.KEEP),), 0, nonce="0" * 32, patience=patience)
    place = RankNumbers(0, 1, 0, 1, 0, 1)
    member = Membership(1, 0, bytes(32), place, True, lambda: SimpleNamespace())  # type: ignore[arg-type,return-value]
    member.assignment, member._generation = assignment, assignment.generation
    me: Any = SimpleNamespace(rank=0, size=1)
    basics._bring_up(
        Arrival(me, None, None, None, "g3/", member), {"start_timeout_seconds": "30.0"}
    )
    assert given["knobs"] == {"start_timeout_seconds": "30.0"}
    assert given["generation"] == (3, "0" * 32, 0, patience or 0)
