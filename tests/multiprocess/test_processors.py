"""What ranks do with the processors of their host: whether gradients overlap, and which processor a
rank waits on."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from bare_ranks import Ranks

from hvdlite.launch import machine

_PROCESSORS = sorted(os.sched_getaffinity(0))
needs_two_processors = pytest.mark.skipif(
    machine.here(os.environ).cores < 2, reason="this process may use one processor"
)

_GRADIENTS = """
from hvdlite import _core
hvd.init()

def step():
    # As the hooks of a backward pass, and step().
    xs = [np.ones(100, np.float32) for _ in range(20)]
    _core.wait_all([
        _core.submit(0, hvd.Sum, 0, f"x{i}", x, x, 0, 1.0, 1.0, [], True)
        for i, x in enumerate(xs)
    ])

def wakes():
    return hvd.metrics()["background_wakes"]
"""

_NO_WAKE = """
for _ in range(20):
    step()
assert wakes() == 0, wakes()
"""

_WAKES = """
while wakes() == 0:
    time.sleep(0.002)  # poll
    step()
"""


def _train(directory: Path, ranks: int, processors: int, then: str) -> None:
    """Runs a job whose ranks may use so many processors."""
    bound = f"os.sched_setaffinity(0, {_PROCESSORS[:processors]})\n"
    with Ranks(directory, ranks) as job:
        job.all_end_well(bound + _GRADIENTS + then, HVDLITE_OVERLAP="auto")


@pytest.mark.parametrize(
    ("ranks", "processors"),
    [(1, 1), (2, 1), pytest.param(2, 2, marks=needs_two_processors)],
)
def test_gradients_wake_no_thread_if_each_processor_has_a_rank(
    tmp_path: Path, ranks: int, processors: int
) -> None:
    _train(tmp_path, ranks, processors, _NO_WAKE)


@needs_two_processors
def test_gradients_overlap_if_there_are_more_processors_than_ranks(tmp_path: Path) -> None:
    _train(tmp_path, 1, 2, _WAKES)


# The kernel may move a rank by itself, or rank 1 may not need to wait: then both meet again.
_MEETING = """
hvd.init()

def sum_of(value):
    return hvd.allreduce(np.array([value], np.int64), op=hvd.Sum)[0]

def moves():
    return hvd.metrics()["moves_to_another_processor"]

everywhere = os.sched_getaffinity(0)
while sum_of(moves()) == 0:
    os.sched_setaffinity(0, {min(everywhere)})
    sum_of(0)  # both have been there
    os.sched_setaffinity(0, everywhere)
    for _ in range(10):
        sum_of(0)
assert os.sched_getaffinity(0) == everywhere
tell(moves=moves())
"""


@needs_two_processors
def test_one_of_two_ranks_that_share_a_processor_moves_to_a_free_one(two_ranks: Ranks) -> None:
    two_ranks.all_end_well(_MEETING)
    assert two_ranks.last(0)["moves"] == 0, "the rank of the lower number stays"
    assert two_ranks.last(1)["moves"] > 0
