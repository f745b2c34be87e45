"""HVDLITE_GRADIENT_POOL: gradients of torch are allocated in shared memory and reduced in place,
and nothing else changes."""

from __future__ import annotations

from ctypes.util import find_library
from pathlib import Path

import pytest
from bare_ranks import Ranks
from installed import needs_installed
from launched import Job, prefixed

needs_installed("torch")

pytestmark = [pytest.mark.watchdog(120), pytest.mark.costly]

_PRELUDE = """
import hvdlite, logging, os, sys, torch, hvdlite.torch as hvd
from hvdlite.core import engine
from hvdlite.adapter import pool
from hvdlite.torch.memory import POOL
torch.set_num_threads(1)
logging.basicConfig(format="%(message)s")
hvd.init()
def linear(size=256, count=2):
    torch.manual_seed(1)
    return torch.nn.Sequential(*[torch.nn.Linear(size, size, bias=False) for _ in range(count)])
def sgd(parameters):
    return torch.optim.SGD(parameters, lr=1e-5, momentum=0.9)
def distributed(net, make=sgd, **options):
    return hvd.DistributedOptimizer(make(net.parameters()), net.named_parameters(), **options)
def inside(net):
    return [pool.contains(p.grad.data_ptr()) for p in net.parameters()
            if p.numel() * p.element_size() >= pool.SMALLEST]
def counted(way):
    return hvdlite.metrics()["carried_by"].get(way, {}).get("allreduce", 0)
"""

# Each trains a model twice from the same weights: without the pool, then with it.
_CASES = """
import torch.nn as nn, torch.nn.functional as F, torch.utils.checkpoint
nns = nn.Sequential
def mlp():
    net = nns(nn.Linear(96, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 64))
    return net, torch.randn(8, 96)
def conv():
    block = lambda i, o, step: (nn.Conv2d(i, o, 3, step, 1, bias=False),
                                nn.BatchNorm2d(o), nn.ReLU())
    net = nns(*block(3, 32, 1), *block(32, 64, 2), *block(64, 64, 1), *block(64, 64, 1),
              nn.Flatten(), nn.Linear(4096, 10))
    return net, torch.randn(4, 3, 16, 16)
def transformer():
    layer = nn.TransformerEncoderLayer(128, 4, 256, dropout=0.0, batch_first=True)
    net = nns(nn.Embedding(500, 128), nn.TransformerEncoder(layer, 2, enable_nested_tensor=False),
              nn.Linear(128, 500))
    return net, torch.randint(0, 500, (4, 12))
class Checkpointed(nn.Module):
    def __init__(self, reentrant=False):
        super().__init__()
        self.layers, self.reentrant = linear(128, 4), reentrant
    def forward(self, x):
        return torch.utils.checkpoint.checkpoint(self.layers, x, use_reentrant=self.reentrant)
def compiled():
    net, x = mlp()
    net.compile(backend="aot_eager")
    return net, x
class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.out = nn.Embedding(300, 64), nn.Linear(64, 300, bias=False)
        self.out.weight = self.words.weight
    def forward(self, x):
        return self.out(self.words(x))
class Lstm(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.LSTM(64, 64, 2, batch_first=True)
    def forward(self, x):
        return self.inner(x)[0]
class Hooked(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = mlp()[0]
        for p in self.inner.parameters(): p.register_hook(lambda g: g * 0.5)
    def forward(self, x):
        return self.inner(x)
def transposed():
    net = nns(nn.ConvTranspose2d(32, 64, 3), nn.ReLU(),
              nn.utils.parametrizations.weight_norm(nn.Conv2d(64, 32, 3)))
    return net, torch.randn(2, 32, 8, 8)
MODELS = {
    "mlp": (mlp, {}), "adam": (mlp, {"make": torch.optim.Adam}), "kept": (mlp, {"to_none": False}),
    "accumulated": (mlp, {"passes": 3}), "autocast": (mlp, {"amp": True}),
    "bfloat16": (lambda: (mlp()[0].bfloat16(), torch.randn(8, 96).bfloat16()), {}),
    "conv": (conv, {}),
    "conv channels last": (
        lambda: (conv()[0].to(memory_format=torch.channels_last), conv()[1]), {}),
    "transformer": (transformer, {}),
    "transformer adamw": (transformer, {"make": torch.optim.AdamW, "amp": True}),
    "checkpointed": (lambda: (Checkpointed(), torch.randn(4, 128)), {}),
    # A backward pass inside a backward pass; it needs an input that requires a gradient.
    "reentrant": (lambda: (nns(nn.Linear(96, 128), Checkpointed(True)), torch.randn(8, 96)), {}),
    "compiled": (compiled, {}), "penalty": (mlp, {"penalty": True}),
    "tied": (lambda: (Tied(), torch.randint(0, 300, (4, 6))), {}),
    "lstm": (lambda: (Lstm(), torch.randn(4, 5, 64)), {}),
    "clipped": (mlp, {"clip": True}), "sum": (mlp, {"op": hvd.Sum}),
    "predivided": (mlp, {"gradient_predivide_factor": 2.0}),
    "hooked": (lambda: (Hooked(), torch.randn(8, 96)), {}),
    "transposed": (transposed, {}),
    # What travels is a copy, which lies elsewhere.
    "fp16": (mlp, {"compression": hvd.Compression.fp16, "travels": False}),
}
def train(name, armed):
    make_model, how = MODELS[name]
    how = dict(how)
    amp, to_none = how.pop("amp", False), how.pop("to_none", True)
    passes, clip = how.pop("passes", 1), how.pop("clip", False)
    penalty = how.pop("penalty", False)
    how.pop("travels", True)
    torch.manual_seed(1)
    net, x = make_model()
    torch.manual_seed(2 + hvd.rank())
    x = torch.randn_like(x) if x.is_floating_point() else torch.randint(0, int(x.max()), x.shape)
    optimizer = distributed(net, **how, backward_passes_per_step=passes)
    engine.pool_arm(armed)
    where = []
    for step in range(4):
        for _ in range(passes):
            with torch.autocast("cpu", torch.bfloat16, enabled=amp):
                loss = net(x).float().square().mean()
            if penalty:
                slopes = torch.autograd.grad(loss, list(net.parameters()), create_graph=True)
                loss = loss + sum(slope.square().sum() for slope in slopes)
            loss.backward()
        optimizer.synchronize()
        where.append(inside(net))
        if clip:
            torch.nn.utils.clip_grad_norm_(net.parameters(), 0.1)
        with optimizer.skip_synchronize():
            optimizer.step()
        optimizer.zero_grad(set_to_none=to_none)
    optimizer.zero_grad()
    return net, where
name = sys.argv[1]
expected, never = train(name, False)
passes = counted("shm in place")
assert not any(any(step) for step in never) and passes == 0, (never, passes)
found, where = train(name, True)
assert len(where[0]) > 0 and all(all(step) for step in where[2:]), where
for a, b in zip(expected.parameters(), found.parameters()):
    assert torch.equal(a, b), name
assert (counted("shm in place") > 0) == MODELS[name][1].get("travels", True)
assert engine.pool_stats().live == 0, engine.pool_stats()
print("as before", flush=True)
"""

_NAMES = (
    "mlp", "adam", "kept", "accumulated", "autocast", "bfloat16", "conv", "conv channels last",
    "transformer", "transformer adamw", "checkpointed", "reentrant", "compiled", "penalty", "tied",
    "lstm", "clipped", "sum", "predivided", "hooked", "transposed", "fp16",
)  # fmt: skip


def _run(
    job: Job, text: str, *arguments: str, ranks: int = 2, first: str = "", **environment: str
) -> tuple[str, str]:
    script = job.script(first + _PRELUDE + text)
    environment = {"HVDLITE_GRADIENT_POOL": "1"} | environment
    done = job.end_well("-np", str(ranks), "python", script, *arguments, **environment)
    out, err = done.stdout.decode(), done.stderr.decode()
    return out, err


@pytest.mark.parametrize("name", _NAMES)
def test_models_train_to_the_same_bits_with_their_gradients_in_the_pool(
    job: Job, name: str
) -> None:
    out, _ = _run(job, _CASES, name)
    assert out.count("as before") == 2


def test_four_ranks_train_to_the_same_bits(job: Job) -> None:
    out, _ = _run(job, _CASES, "mlp", ranks=4)
    assert out.count("as before") == 4


_TWO_STEPS = """
net = linear()
optimizer = distributed(net)
for step in range(2):
    optimizer.zero_grad()
    net(torch.ones(2, 256)).sum().backward()
    optimizer.step()
"""

_OFF = (
    _TWO_STEPS
    + """
assert not any(inside(net)) and counted("shm in place") == 0
assert engine.pool_stats() == (0, 0, 0, 0)
assert all(torch.equal(p.grad, hvd.allreduce(p.grad)) for p in net.parameters())
print("pool" if "gradient_pool" in hvdlite.metrics() else "no pool", flush=True)
"""
)


def test_nothing_happens_with_the_knob_off(job: Job) -> None:
    out, err = _run(job, _OFF, HVDLITE_GRADIENT_POOL="0")
    assert out.count("no pool") == 2 and err == ""


def test_the_pool_is_on_by_default(job: Job) -> None:
    used = 'assert all(inside(net)) and counted("shm in place") > 0'
    _run(job, _TWO_STEPS + used, HVDLITE_GRADIENT_POOL="")


def test_a_job_without_torch_uses_no_such_memory(job: Job) -> None:
    script = job.script("""
import numpy as np, hvdlite as hvd
hvd.init()
for _ in range(3): hvd.allreduce(np.ones(100_000, np.float32))
assert "gradient_pool" not in hvd.metrics() and "shm in place" not in hvd.metrics()["carried_by"]
with open("/proc/self/smaps") as file: lines = file.read().splitlines()
names = [i for i, line in enumerate(lines) if "hvdlite-gradients" in line]
assert names
for i in names:
    assert next(line.split()[1] for line in lines[i:] if line.startswith("Rss:")) == "0"
""")
    job.end_well("-np", "2", "python", script)


def test_a_rank_alone_on_its_host_allocates_as_ever(job: Job) -> None:
    out, err = _run(job, _OFF, ranks=1)
    assert out.count("no pool") == 1 and err == ""


def test_ordinary_tensors_are_seldom_looked_for_in_the_pool(job: Job) -> None:
    _run(job, """
tensor = torch.ones(100_000)
for _ in range(200): hvd.allreduce_(tensor, op=hvd.Max)
assert counted("shm in place") == 0 and counted("shm shares") == 200
""")  # fmt: skip


def test_without_being_asked_for_the_pool_stays_off_silently(job: Job) -> None:
    _, err = _run(job, """
import dataclasses
POOL.framework = dataclasses.replace(POOL.framework, gate="no_such_gate")
optimizer = distributed(linear())
""", HVDLITE_GRADIENT_POOL="")  # fmt: skip
    assert err == ""


@pytest.mark.parametrize(
    ("broken", "says"),
    [
        ('change(gate="no_such_gate")', "has no no_such_gate"),
        ('change(allocator="no_such_allocator")', "has no no_such_allocator"),
        (
            "change(compute=lambda size: (torch.ones(size // 4),) * 2)",
            "allocated a gradient elsewhere",
        ),
        (
            "change(compute=lambda size: (gradient(),) * 2)",
            "a tensor that is not a gradient was allocated there",
        ),
        (
            "change(compute=lambda size: (kept.append(gradient()) or kept[0], torch.ones(1)))",
            "was not freed",
        ),
        ("change(compute=lambda size: 1 / 0)", "division by zero"),
    ],
)
def test_it_stays_off_with_a_line_where_torch_is_not_as_expected(
    job: Job, broken: str, says: str
) -> None:
    program = f"""
import dataclasses
kept = []
def change(**how): POOL.framework = dataclasses.replace(POOL.framework, **how)
def gradient(): return compute(pool._TRIED)[0]
compute = POOL.framework.compute
{broken}
optimizers = [distributed(linear()) for _ in range(2)]
"""
    _, err = _run(job, program + _OFF.replace("assert engine.pool_stats() == (0, 0, 0, 0)\n", ""))
    lines = [line for line in err.splitlines() if "not allocated in shared memory" in line]
    assert len(lines) == 2 and all(says in line for line in lines), err


def test_gradients_that_the_program_keeps_send_others_the_old_way(job: Job) -> None:
    _run(job, """
net = linear(128, 3)
optimizer = distributed(net)
kept = []
for step in range(12):
    optimizer.zero_grad()
    net(torch.full((2, 128), float(step + hvd.rank()))).sum().backward()
    optimizer.step()
    kept.append([p.grad for p in net.parameters()])
    assert all(torch.equal(g, hvd.allreduce(g)) for g in kept[-1]), step
copies = [[g.clone() for g in step] for step in kept]
for _ in range(3):
    optimizer.zero_grad()
    net(torch.ones(2, 128)).sum().backward()
    optimizer.step()
assert all(torch.equal(a, b) for was, now in zip(copies, kept) for a, b in zip(was, now))
assert engine.pool_stats().misses > 0
kept.clear()
""")  # fmt: skip


def test_a_limit_sends_the_rest_the_old_way(job: Job) -> None:
    _run(job, """
net = linear(256, 8)
optimizer = distributed(net)
for step in range(3):
    optimizer.zero_grad()
    net(torch.ones(2, 256)).sum().backward()
    optimizer.step()
    assert 0 < sum(inside(net)) < 8, inside(net)
    assert all(torch.equal(p.grad, hvd.allreduce(p.grad)) for p in net.parameters())
assert engine.pool_stats().bytes <= 1 << 20
assert counted("shm in place") and counted("shm shares")
""", HVDLITE_GRADIENT_POOL_BYTES=str(1 << 20))  # fmt: skip


_FORK = """
import multiprocessing, threading
net = linear()
optimizer = distributed(net)
net(torch.ones(2, 256)).sum().backward()
optimizer.step()
assert all(inside(net))
grads = [p.grad for p in net.parameters()]
for g in grads: g.fill_(1.0)
changed, wrote = os.pipe(), os.pipe()
child = os.fork()
if child == 0:
    os.read(changed[0], 1)
    right = all(bool((g == 1.0).all()) for g in grads)
    for g in grads: g.fill_(3.0)
    os.write(wrote[1], b"x")
    grandchild = os.fork()
    if grandchild == 0:
        os._exit(0 if all(bool((g == 3.0).all()) for g in grads) else 1)
    right = right and os.waitpid(grandchild, 0)[1] == 0
    own = linear()
    own(torch.ones(2, 256)).sum().backward()
    right = right and not any(inside(own))
    for p in net.parameters(): p.grad = None
    grads.clear()
    os._exit(0 if right else 1)
for g in grads: g.fill_(2.0)
os.write(changed[1], b"x")
os.read(wrote[0], 1)
assert all(bool((g == 2.0).all()) for g in grads)
assert os.waitpid(child, 0)[1] == 0

# multiprocessing's children, and those of a data loader, while training goes on.
context = multiprocessing.get_context("fork")
queue = context.Queue()
process = context.Process(target=lambda: queue.put(sum(float(g.sum()) for g in grads)))
process.start()
assert queue.get() == 2.0 * 2 * 256 * 256
process.join()
assert process.exitcode == 0
class Data(torch.utils.data.Dataset):
    def __len__(self): return 12
    def __getitem__(self, i): return torch.full((256,), float(i))
for epoch in range(2):
    for x in torch.utils.data.DataLoader(Data(), batch_size=4, num_workers=2):
        optimizer.zero_grad()
        net(x).sum().backward()
        optimizer.step()
        assert all(inside(net))
        assert all(torch.equal(p.grad, hvd.allreduce(p.grad)) for p in net.parameters())

# A fork while another thread computes gradients.
stop = threading.Event()
def others():
    mine = linear(256, 1)
    while not stop.is_set():
        mine.zero_grad(); mine(torch.ones(2, 256)).sum().backward()
thread = threading.Thread(target=others)
thread.start()
for _ in range(10):
    child = os.fork()
    if child == 0:
        os._exit(0 if all(bool(torch.isfinite(p.grad).all()) for p in net.parameters()) else 1)
    assert os.waitpid(child, 0)[1] == 0
stop.set()
thread.join()
print("forked", flush=True)
"""


def test_a_child_has_the_gradients_of_that_moment_and_memory_of_its_own(job: Job) -> None:
    out, _ = _run(job, _FORK)
    assert out.count("forked") == 2


@pytest.mark.parametrize("library", ["jemalloc", "tcmalloc_minimal"])
def test_another_allocator_serves_what_the_pool_does_not(job: Job, library: str) -> None:
    path = find_library(library)
    if path is None:
        pytest.skip(f"there is no lib{library} (Debian: libjemalloc2, libtcmalloc-minimal4)")
    out, _ = _run(job, _FORK + f"""
assert "lib{library}" in open("/proc/self/maps").read()
""", LD_PRELOAD=path)  # fmt: skip
    assert out.count("forked") == 2


_DDP = """
from torch.nn.parallel import DistributedDataParallel
torch.distributed.init_process_group(
    "gloo", init_method="file://" + os.path.abspath("store"), rank=hvd.rank(),
    world_size=hvd.size())
owner = distributed(linear())  # has the pool expect such gradients
def train(armed):
    engine.pool_arm(armed)
    net = DistributedDataParallel(linear())
    net.register_comm_hook(None, hvd.ddp_comm_hook())
    optimizer = sgd(net.parameters())
    for step in range(4):
        optimizer.zero_grad()
        net(torch.full((2, 256), float(step + hvd.rank()))).sum().backward()
        optimizer.step()
    return list(net.parameters())
expected, found = train(False), train(True)
assert all(torch.equal(a, b) for a, b in zip(expected, found))
torch.distributed.destroy_process_group()
print("as before", flush=True)
"""


def test_ddps_buckets_are_reduced_to_the_same_bits(job: Job) -> None:
    out, _ = _run(job, _DDP)
    assert out.count("as before") == 2


_BUCKETS = """
from torch.nn.parallel import DistributedDataParallel
torch.distributed.init_process_group(
    "hvdlite", init_method="file://" + os.path.abspath("store"), rank=hvd.rank(),
    world_size=hvd.size())
def train(view, armed=True):
    engine.pool_arm(armed)
    net = linear(count=8)  # of 2 MiB
    ddp = DistributedDataParallel(net, gradient_as_bucket_view=view, bucket_cap_mb=1)
    optimizer = sgd(net.parameters())
    for step in range(5):
        optimizer.zero_grad()
        before = counted("shm shares"), counted("shm in place")
        ddp(torch.full((2, 256), float(step + hvd.rank()))).sum().backward()
        shares, in_place = counted("shm shares") - before[0], counted("shm in place") - before[1]
        assert (shares > 0, in_place > 0) == (not armed, armed), (step, shares, in_place)
        assert not view or inside(net) == [armed] * 8, inside(net)
        optimizer.step()
    return list(net.parameters())
DistributedDataParallel(linear())  # switches the pool on
found = train(False), train(True)
expected = train(False, armed=False)
assert all(torch.equal(a, b) for each in found for a, b in zip(expected, each))
outside = torch.empty(1 << 20)
assert not pool.contains(outside.data_ptr())
torch.distributed.destroy_process_group()
print("in place", flush=True)
"""


def test_the_backend_has_ddps_buckets_in_the_pool(job: Job) -> None:
    out, _ = _run(job, _BUCKETS)
    assert out.count("in place") == 2


def test_two_hosts_train_to_the_same_bits(job: Job) -> None:
    here = 'import os\nos.environ["HVDLITE_HOST_ID"] = str(int(os.environ["HVDLITE_RANK"]) // 2)\n'
    out, _ = _run(job, _CASES, "mlp", ranks=4, first=here)
    assert out.count("as before") == 4


def test_gradients_outlive_everything_at_exit(job: Job) -> None:
    out, err = _run(job, """
import atexit, builtins
net = linear()
optimizer = distributed(net)
net(torch.ones(2, 256)).sum().backward()
optimizer.step()
builtins.kept = net
circle = [p.grad for p in net.parameters()]
circle.append(circle)
atexit.register(lambda: print("live", engine.pool_stats().live, flush=True))
""")  # fmt: skip
    assert [prefixed(out.encode(), rank) for rank in range(2)] == [["live 2"]] * 2 and err == ""


def test_what_torch_does_with_tensors_works_on_these(job: Job) -> None:
    _run(job, """
import copy, io, pickle, threading
import numpy as np
def fresh():
    net = linear()
    optimizer = distributed(net)
    net(torch.ones(2, 256)).sum().backward()
    optimizer.step()
    assert all(inside(net))
    return net
net = fresh()
g = net[0].weight.grad
again = pickle.loads(pickle.dumps(g))
file = io.BytesIO(); torch.save(g, file); file.seek(0)
for other in (again, copy.deepcopy(g), torch.load(file)):
    assert torch.equal(other, g) and not pool.contains(other.data_ptr())
view, taken = g.numpy(), np.from_dlpack(net[1].weight.grad)
total = view.sum()
net.zero_grad(); del g
assert engine.pool_stats().live == 2 and view.sum() == total
del view, taken
assert engine.pool_stats().live == 0
net = fresh()
g = net[0].weight.grad
g.resize_(512, 512)
assert not pool.contains(g.data_ptr())
net[1].weight.grad.untyped_storage().resize_(0)
assert engine.pool_stats().live == 0
net = fresh()
box = [p.grad for p in net.parameters()]
net.zero_grad()
thread = threading.Thread(target=box.clear); thread.start(); thread.join()
assert engine.pool_stats().live == 0
net = fresh()
kept = net[0].weight.grad.clone()
net[0].weight.grad.share_memory_()
assert torch.equal(net[0].weight.grad, kept)
""")  # fmt: skip


_KILLED = """
import torch, hvdlite.torch as torch_hvd
from hvdlite.adapter import pool
from hvdlite.torch.memory import POOL
torch.set_num_threads(1)
hvd.init()
net = torch.nn.Sequential(*[torch.nn.Linear(1024, 1024, bias=False) for _ in range(6)])
optimizer = torch.optim.SGD(net.parameters(), lr=0.0)
optimizer = torch_hvd.DistributedOptimizer(optimizer, net.named_parameters())
def step():
    optimizer.zero_grad()
    net(torch.ones(1, 1024)).sum().backward()
    optimizer.step()
for _ in range(2): step()
assert all(pool.contains(p.grad.data_ptr()) for p in net.parameters())
assert hvd.metrics()["carried_by"]["shm in place"]["allreduce"] > 0
if RANK == 1:
    def die():
        wait_until_inside(); tell(dying=True); os.kill(os.getpid(), signal.SIGKILL)
    threading.Thread(target=die, daemon=True).start()
until_it_fails(step)
# The program has its gradients, and goes on without the job.
before = [p.grad.clone() for p in net.parameters()]
del optimizer
for p in net.parameters(): p.grad.add_(1.0)
assert all(torch.equal(p.grad, b + 1.0) for p, b in zip(net.parameters(), before))
for _ in range(2):
    net.zero_grad()
    net(torch.ones(1, 1024)).sum().backward()
tell(went_on=all(bool(torch.isfinite(p.grad).all()) for p in net.parameters()))
"""


def test_a_rank_that_is_killed_in_a_step_leaves_the_other_its_gradients(tmp_path: Path) -> None:
    with Ranks(tmp_path, 2) as ranks:
        ranks.start(_KILLED, OMP_NUM_THREADS="1", HVDLITE_GRADIENT_POOL="1")
        codes = ranks.wait(90)
        assert codes[0] == 0, ranks.outputs()
        told = ranks.told(0)
        assert told[-2]["error"] == "PeerLostError" and told[-2]["peer"] == 1, told
        assert told[-1]["went_on"], told


def test_jobs_of_one_process_follow_one_another(tmp_path: Path) -> None:
    with Ranks(tmp_path, 2) as ranks:
        ranks.all_end_well("""
import torch, hvdlite.torch as torch_hvd
from hvdlite.adapter import pool
net = torch.nn.Linear(256, 256, bias=False)
for job in range(3):
    hvd.init()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.0)
    optimizer = torch_hvd.DistributedOptimizer(optimizer, net.named_parameters())
    for _ in range(2):
        net(torch.ones(1, 256)).sum().backward()
        optimizer.step()
        assert pool.contains(net.weight.grad.data_ptr())
        optimizer.zero_grad()
    assert hvd.metrics()["carried_by"]["shm in place"]["allreduce"] == 2
    hvd.shutdown()
""", OMP_NUM_THREADS="1", HVDLITE_GRADIENT_POOL="1", seconds=90)  # fmt: skip
