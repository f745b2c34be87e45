"""Soaks the drift guard of hvdlite.torch while ranks train: a million comparisons, and no alarm.

Each kind trains a model of its own in blocks of steps: mixed precision with overflows on one rank,
accumulated gradients, ranks that join, a process set beside the others, and parameters that may
differ.

python tests/soak/drift_training.py                       a million, on three ranks
python tests/soak/drift_training.py --comparisons 20000
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

RANKS = 3
KINDS = ("mixed precision", "accumulation", "join", "process set", "declared")
_A_SECOND = 500  # comparisons of a busy machine

_PROGRAM = """
import torch
import hvdlite.torch as hvd
from hvdlite.adapter.drift_guard import DriftGuard
COMPARISONS, A_SECOND = int(os.environ["COMPARISONS"]), int(os.environ["A_SECOND"])
end_after(120 + 5 * COMPARISONS // A_SECOND)
torch.set_num_threads(1)
hvd.init()
looked = 0
look = DriftGuard._look
def counted(self):
    global looked
    looked += 1
    look(self)
DriftGuard._look = counted
pair = hvd.add_process_set([0, 1])

class Kind:
    def __init__(self, seed=1, **options):
        torch.manual_seed(seed)
        self.net = torch.nn.Sequential(
            torch.nn.Linear(4, 3), torch.nn.ReLU(), torch.nn.Linear(3, 2)
        )
        plain = torch.optim.SGD(self.net.parameters(), lr=1e-3, momentum=0.9)
        self.optimizer = hvd.DistributedOptimizer(plain, self.net.named_parameters(), **options)
        self.data = torch.Generator().manual_seed(RANK)
    def loss(self):
        x = torch.randn(4, 4, generator=self.data)
        return (self.net(x) ** 2).mean() - self.net(x).mean()
    def step(self, number):
        self.optimizer.zero_grad()
        self.loss().backward()
        self.optimizer.step()
    def block(self, steps):
        for number in range(steps):
            self.step(number)
    @property
    def compared(self):
        guard = self.optimizer._hvd.guard
        return COMPARISONS if guard is None else guard.compared

class MixedPrecision(Kind):
    # Now and then the loss of the last rank overflows, and no rank makes the step.
    def __init__(self):
        super().__init__()
        self.scaler = torch.amp.GradScaler("cpu", init_scale=2.0**8, growth_interval=3)
    def step(self, number):
        self.optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = self.loss()
        if number % 50 == 7 and RANK == SIZE - 1:
            loss = loss * float("inf")
        self.scaler.scale(loss).backward()
        self.scaler.step(self.optimizer)
        self.scaler.update()

class Accumulation(Kind):
    def __init__(self):
        super().__init__(backward_passes_per_step=3)
    def step(self, number):
        self.optimizer.zero_grad()
        for _ in range(3):
            self.loss().backward()
        self.optimizer.step()

class Join(Kind):
    # Ranks have different numbers of batches. The one that had the most is right.
    def block(self, steps):
        super().block(steps + 3 * RANK)
        hvd.join()
        hvd.broadcast_parameters(self.net.state_dict(), root_rank=SIZE - 1)
        hvd.broadcast_optimizer_state(self.optimizer, root_rank=SIZE - 1)

class ProcessSet(Kind):
    # Rank 2 trains another model by itself.
    def __init__(self):
        if RANK < 2:
            super().__init__(process_set=pair)
        else:
            self.net = None
    def block(self, steps):
        if RANK < 2:
            super().block(steps)
    @property
    def compared(self):
        return super().compared if RANK < 2 else COMPARISONS

class Declared(Kind):
    def __init__(self):
        super().__init__()
        local = self.net[0].bias
        self.optimizer.may_differ([local])
        with torch.no_grad():
            local += RANK

for kind in (MixedPrecision, Accumulation, Join, ProcessSet, Declared):
    one, blocks = kind(), 0
    enough = False
    while not enough:
        one.block(500)
        blocks += 1
        least = torch.tensor([one.compared])
        enough = hvd.allreduce(least, op=hvd.Min, name="enough").item() >= COMPARISONS
    tell(kind=kind.__name__, compared=hvd.allgather_object(one.compared), blocks=blocks)
tell(looked=looked)
"""


def soak(comparisons: int) -> tuple[dict[str, int], int]:
    """How many comparisons there were of each kind, and how often ranks have looked for a
    difference."""
    each = -(-comparisons // len(KINDS))
    with tempfile.TemporaryDirectory() as folder, Ranks(Path(folder), RANKS) as job:
        job.start(
            _PROGRAM,
            COMPARISONS=str(each),
            A_SECOND=str(_A_SECOND),
            HVDLITE_DRIFT="error",
            HVDLITE_DRIFT_STEPS="2",
            OMP_NUM_THREADS="1",
        )
        codes = job.wait(120 + comparisons // _A_SECOND)
        assert set(codes.values()) == {0}, job.outputs()
        *kinds, last = job.told(0)
        found = {name: told["compared"][0] for name, told in zip(KINDS, kinds, strict=True)}
        return found, last["looked"]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--comparisons", type=int, default=1_000_000)
    given = parser.parse_args()
    begin = time.monotonic()
    found, looked = soak(given.comparisons)
    kinds = ", ".join(f"{name} {number}" for name, number in found.items())
    print(
        f"{sum(found.values())} comparisons on {RANKS} ranks in {time.monotonic() - begin:.0f} s: "
        f"no alarm ({kinds}); {looked} times the digests differed and the values did not"
    )


if __name__ == "__main__":
    main()
