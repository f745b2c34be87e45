"""Soaks the gradient pool: jobs of random models, ranks and hosts train with it and without it at
the same time, and each step must agree bit for bit.

Data loaders fork workers that look at inherited gradients; the program keeps some gradients; one
rank is killed, or is stopped and goes on after the others have given it up. Whatever differs is a
wrong byte, and ends the soak with code 1.

python tests/soak/gradient_pool.py --minutes 60
python tests/soak/gradient_pool.py --steps 100000     flat memory: one job, that many steps
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
for folder in ("tests", "tests/multiprocess", "tests/conformance", "."):
    sys.path.insert(0, str(ROOT / folder))

from bare_ranks import Ranks  # noqa: E402

_MODELS = """
import random, torch, torch.nn as nn, hvdlite.torch as torch_hvd
from hvdlite.adapter import pool
from hvdlite.core import engine
torch.set_num_threads(1)
end_after(600)  # the machine may be busy
SEED, FATE, MODEL = int(os.environ["SEED"]), os.environ["FATE"], os.environ["MODEL"]
common, own = random.Random(SEED), random.Random(SEED * 31 + RANK)
def model():
    torch.manual_seed(SEED)
    if MODEL == "mlp":
        wide = nn.Linear(256, 256)
        return nn.Sequential(nn.Linear(64, 256), nn.ReLU(), wide, nn.ReLU(), nn.Linear(256, 32))
    if MODEL == "conv":
        return nn.Sequential(
            nn.Unflatten(1, (1, 8, 8)), nn.Conv2d(1, 32, 3, padding=1), nn.ReLU(),
            nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.Conv2d(64, 64, 3, padding=1), nn.ReLU(),
            nn.Flatten(), nn.Linear(4096, 32))
    layer = nn.TransformerEncoderLayer(64, 4, 256, dropout=0.0, batch_first=True)
    layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
    return nn.Sequential(nn.Unflatten(1, (1, 64)), layers, nn.Flatten(), nn.Linear(64, 32))
class Side:
    def __init__(self, armed):
        self.armed, self.net = armed, model()
        self.optimizer = torch_hvd.DistributedOptimizer(
            torch.optim.SGD(self.net.parameters(), lr=1e-4, momentum=0.9),
            self.net.named_parameters(), backward_passes_per_step=PASSES)
    def step(self, batches):
        engine.pool_arm(self.armed)
        self.optimizer.zero_grad(set_to_none=TO_NONE)
        for x in batches:
            self.net(x).square().mean().backward()
        self.optimizer.step()
    def grads(self):
        return [p.grad for p in self.net.parameters()]
hvd.init()
PASSES, TO_NONE = common.choice([1, 1, 1, 3]), common.random() < 0.8
inside, outside = Side(True), Side(False)
def agree():
    # Parameters as well: they hold all steps' history.
    for a, b in zip(inside.net.parameters(), outside.net.parameters()):
        assert torch.equal(a.grad, b.grad) and torch.equal(a, b), "a wrong byte"
"""

_TRAINING = """
class Data(torch.utils.data.Dataset):
    # Its workers are forked while gradients are allocated, and look at them.
    def __init__(self):
        self.seen = [g for g in inside.grads() if g is not None]
        self.then = [g.clone() for g in self.seen]
    def __len__(self): return 4 * PASSES * ROUND
    def __getitem__(self, i):
        forked = torch.utils.data.get_worker_info() is not None
        same = all(torch.equal(a, b) for a, b in zip(self.seen, self.then))
        assert same or not forked, "a wrong byte"
        return torch.randn(64, generator=torch.Generator().manual_seed(1000 * RANK + i))
ROUND, ROUNDS = 15, 4
steps, kept = 0, []
def train():
    global steps, kept
    data = Data()
    batches = []
    for x in torch.utils.data.DataLoader(data, batch_size=4, num_workers=common.choice([0, 2])):
        batches.append(x)
        if len(batches) < PASSES: continue
        inside.step(batches); outside.step(batches)
        batches = []
        agree()
        steps += 1
        if own.random() < 0.1:
            kept.append([(g.clone(), g) for g in inside.grads()])
        assert not TO_NONE or all(torch.equal(a, b) for k in kept for a, b in k), "a wrong byte"
        kept = kept[-3:]
        if own.random() < 0.05: os.waitpid(os.fork() or os._exit(0), 0)
train(); train()
in_place = hvd.metrics()["carried_by"].get("shm in place", {}).get("allreduce", 0)
# Between hosts, gradients travel by other ways, but lie in the pool all the same.
assert in_place > 0 or hvd.cross_size() > 1
assert any(g is not None and pool.contains(g.data_ptr()) for g in inside.grads())
if FATE == "ends":
    for _ in range(ROUNDS): train()
    tell(steps=steps, error=None)
else:
    if RANK == 1:
        def meet_it():
            time.sleep(own.random() * 0.3)  # span: the moment of the fault is drawn
            tell(fate=FATE, steps=steps)
            os.kill(os.getpid(), signal.SIGKILL if FATE == "killed" else signal.SIGSTOP)
        threading.Thread(target=meet_it, daemon=True).start()
    until_it_fails(train, 200)
    mine = [g for side in (inside, outside) for g in side.grads() if g is not None]
    then = [g.clone() for g in mine]
    flag(f"failed.{RANK}")
    if RANK != 1:
        wait_flag("resumed", 200)
        assert all(torch.equal(a, b) for a, b in zip(mine, then)), "a wrong byte"
        for g in mine: g.add_(1.0)
        assert all(torch.equal(a, b.add_(1.0)) for a, b in zip(mine, then)), "a wrong byte"
        tell(survived=True, steps=steps)
"""

_FLAT = """
PASSES, TO_NONE = 1, True
inside = Side(True)
x = torch.randn(4, 64)
def resident():
    fields = dict(line.split(":", 1) for line in open("/proc/self/status") if ":" in line)
    return int(fields["VmRSS"].split()[0])
end_after(4 * int(os.environ["STEPS"]))
for step in range(int(os.environ["STEPS"])):
    inside.step([x])
    if step in (int(os.environ["STEPS"]) // 10, int(os.environ["STEPS"]) - 1):
        tell(kib=resident(), blocks=engine.pool_stats().bytes,
             descriptors=len(os.listdir("/proc/self/fd")))
assert hvd.metrics()["carried_by"].get("shm in place", {}).get("allreduce", 0) > 0
"""


def one_job(seed: int) -> tuple[str, int]:
    """Its fate, and how many steps agreed."""
    decide = random.Random(seed)
    size = decide.choice([2, 2, 3, 4])
    fate = decide.choice(["ends", "ends", "killed", "stopped"])
    # Two ranks on one host at least: alone, a rank has no one to share with.
    hosts = ["a"] * size if size < 4 or decide.random() < 0.5 else ["a", "a", "b", "b"]
    environment = {
        "HVDLITE_GRADIENT_POOL": "1",  # says why if it is off
        "OMP_NUM_THREADS": "1",
        "SEED": str(seed),
        "FATE": fate,
        "MODEL": decide.choice(["mlp", "conv", "transformer"]),
        "HVDLITE_HEARTBEAT_SECONDS": "3" if fate == "stopped" else "0",
        "HVDLITE_DEBUG_DELAY_MICROSECONDS": decide.choice(["0", "0", "300"]),
    }
    print(f"seed {seed}: {size} ranks, {hosts}, {environment['MODEL']}, {fate}", flush=True)
    with tempfile.TemporaryDirectory() as folder, Ranks(Path(folder), size, hosts) as ranks:
        ranks.start(_MODELS + _TRAINING, **environment)
        others = [rank for rank in range(size) if rank != 1]
        if fate != "ends":
            ranks.wait_for_flags(*(f"failed.{rank}" for rank in others), seconds=100)
            if fate == "stopped":
                ranks.kill(1, signal.SIGCONT)
            ranks.processes[1].wait(1500)
            (Path(folder) / "resumed").touch()
        codes = ranks.wait(300)
        ranks.job.wait_until_gone(30)  # a killed rank's data loaders look for it every 5 s
        expected = {rank: 0 for rank in (range(size) if fate == "ends" else others)}
        assert expected.items() <= codes.items(), f"{codes}\n{ranks.outputs()}"
        if fate != "ends":
            assert all(ranks.last(rank).get("survived") for rank in others), ranks.outputs()
        return fate, sum(ranks.last(rank).get("steps", 0) for rank in others)


def soak(minutes: float, seed: int) -> None:
    end = time.monotonic() + 60 * minutes
    fates: Counter[str] = Counter()
    steps = 0
    while time.monotonic() < end:
        fate, agreed = one_job(seed)
        fates[fate] += 1
        steps += agreed
        seed += 1
    print(f"{sum(fates.values())} jobs ({dict(fates)}), {steps} steps, no byte differs")


def flat(steps: int) -> None:
    with tempfile.TemporaryDirectory() as folder, Ranks(Path(folder), 2) as ranks:
        ranks.start(
            _MODELS.replace("inside, outside = Side(True), Side(False)", "") + _FLAT,
            HVDLITE_GRADIENT_POOL="1", OMP_NUM_THREADS="1", SEED="1", FATE="ends", MODEL="conv",
            STEPS=str(steps),
        )  # fmt: skip
        ranks.end_well(max(60, steps))
        for rank in range(2):
            early, late = ranks.told(rank)
            print(f"rank {rank}: after a tenth {early}, in the end {late}")
            assert late["blocks"] == early["blocks"], "blocks are made for ever"
            assert late["descriptors"] == early["descriptors"]
            assert late["kib"] < early["kib"] + 4096, "memory grows"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--steps", type=int, help="flat memory over so many steps instead")
    given = parser.parse_args()
    os.environ.pop("HVDLITE_RANK", None)
    if given.steps:
        flat(given.steps)
    else:
        soak(given.minutes, given.seed)


if __name__ == "__main__":
    main()
