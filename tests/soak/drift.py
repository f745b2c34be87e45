"""Soaks the drift guard: a million comparisons of parameters that are the same on all ranks, and no
alarm.

Each step changes all parameters alike, NaNs with other bits come and go, ranks join and come back,
and one makes a guard anew, as a newcomer of an elastic job does. At the end a bit is flipped, which
has to be found.

python tests/soak/drift.py                       a million, on two ranks
python tests/soak/drift.py --ranks 3 --comparisons 20000
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
for folder in ("tests", "tests/multiprocess", "tests/conformance", "."):
    sys.path.insert(0, str(ROOT / folder))

from bare_ranks import Ranks  # noqa: E402

_PROGRAM = """
import random
from hvdlite.adapter.agreement.drift_guard import DriftGuard, Replica, Taken
from hvdlite.core import engine
from hvdlite.core.process_sets import global_process_set
from hvdlite.exceptions import MismatchError
COMPARISONS = int(os.environ["COMPARISONS"])
end_after(120 + COMPARISONS // 500)
class Reader:
    def size(self, array): return array.nbytes
    def take(self, arrays):
        taken = Taken(engine.digests(arrays), True)
        return lambda: taken
    def observe(self, arrays): return lambda: None
    def exact(self, array):
        return engine.digests([np.where(np.isnan(array), np.float32("nan"), array)])[0]
hvd.init()
common = random.Random(1)
arrays = [np.ones(shape, np.float32) for shape in ((), (3,), (40, 10), (300,))]
replicas = [Replica(f"array {i}", array) for i, array in enumerate(arrays)]
def new_guard():
    return DriftGuard("", global_process_set, replicas, Reader())
guard, compared, looked = new_guard(), 0, 0
look = DriftGuard._look
def counted(self):
    global looked
    looked += 1
    look(self)
DriftGuard._look = counted
def enough():
    # The same on all ranks, which have made different numbers of comparisons.
    least = hvd.allreduce(np.array([compared + guard.compared]), op=hvd.Min, name="enough")
    return least[0] >= COMPARISONS
step = 0
while step % 500 or not enough():
    step += 1
    for array in arrays:
        array += np.float32(step % 7 - 3) / 64
    guard.compare()
    event = common.random()
    if event < 0.0005:
        bits = 0x7FC00000 + common.randrange(2) * RANK
        arrays[1].view(np.uint32)[0] = bits
    elif event < 0.001:
        arrays[1][0] = 1
    elif event < 0.0012:
        if RANK == SIZE - 1:
            compared += guard.compared
            guard = new_guard()
    elif event < 0.0015:  # rank 0 goes first, and makes fewer steps than the others
        for _ in range(0 if RANK == 0 else 5):
            guard.compare()
        hvd.join()
everyones = hvd.allgather_object(compared + guard.compared)
for _ in range(200):  # some guards may rest
    guard.compare()
if RANK == 1:
    arrays[2].view(np.uint32)[7, 7] ^= 4
try:
    for _ in range(200):
        guard.compare()
except MismatchError as error:
    assert "array 2" in str(error), error
else:
    raise AssertionError("a flipped bit was not found")
tell(compared=min(everyones), looked=looked - 1, steps=step)
"""


def soak(ranks: int, comparisons: int) -> tuple[int, int]:
    """How many comparisons there were, and how often ranks have looked for a difference."""
    with tempfile.TemporaryDirectory() as folder, Ranks(Path(folder), ranks) as job:
        job.start(
            _PROGRAM,
            COMPARISONS=str(comparisons),
            HVDLITE_DRIFT="error",
            HVDLITE_DRIFT_STEPS="2",
            OMP_NUM_THREADS="1",
        )
        codes = job.wait(120 + comparisons // 500)
        assert set(codes.values()) == {0}, job.outputs()
        last = job.last(0)
        return last["compared"], last["looked"]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--comparisons", type=int, default=1_000_000)
    given = parser.parse_args()
    begin = time.monotonic()
    compared, looked = soak(given.ranks, given.comparisons)
    print(
        f"{compared} comparisons on {given.ranks} ranks in {time.monotonic() - begin:.0f} s: no "
        f"alarm; {looked} times the digests differed and the values did not"
    )


if __name__ == "__main__":
    main()
