"""hvdlite.torch in whole programs: inductor's compiler, and a rank that fails in the middle of a
step."""

from __future__ import annotations

import pytest
from bare_ranks import Ranks
from installed import needs_installed
from launched import Job, last_line

pytestmark = pytest.mark.costly

needs_installed("torch")

_COMPILED = """
import torch, hvdlite.torch as hvd
torch.set_num_threads(1)
hvd.init()
n = hvd.size()

def collectives(x):
    y = hvd.allreduce(torch.tanh(x), op=hvd.Sum, name="compiled")
    a, b = hvd.grouped_allreduce([y, y * 2], op=hvd.Average)
    c, d = hvd.grouped_allgather([a + b, a - b])
    y = hvd.alltoall(hvd.broadcast(hvd.allgather(c + d) * 0.5, 0))
    e, f = hvd.grouped_reducescatter([y, y * y], op=hvd.Sum)
    return hvd.allreduce_(hvd.reducescatter(e + f, op=hvd.Sum) * 3, op=hvd.Sum).relu()

results = []
for function in (collectives, torch.compile(collectives, fullgraph=True)):
    x = torch.linspace(-1, 1, 6).reshape(3, 2).add(hvd.rank()).requires_grad_()
    y = function(x)
    y.sum().backward()
    results.append((y.detach(), x.grad))
for eager, compiled in zip(*results):
    torch.testing.assert_close(compiled, eager)

# A compiled model: hooks fire, and the weights are those of the model as it is.
nets = []
for compiled in (False, True):
    torch.manual_seed(1)
    net = torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.Tanh(), torch.nn.Linear(5, 3))
    call = torch.compile(net, fullgraph=True) if compiled else net
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    optimizer = hvd.DistributedOptimizer(optimizer, net.named_parameters())
    for step in range(3):
        optimizer.zero_grad()
        call(torch.full((4, 6), float(hvd.rank() + step))).pow(2).mean().backward()
        optimizer.step()
    nets.append(net)
for a, b in zip(nets[0].parameters(), nets[1].parameters()):
    torch.testing.assert_close(a, b)
print("equal", flush=True)
"""


@pytest.mark.watchdog(300)
def test_inductor_compiles_collectives_and_models_without_a_break(job: Job) -> None:
    done = job.end_well(
        "-np", "2", "python", job.script(_COMPILED),
        TORCHINDUCTOR_CACHE_DIR=str(job.directory / "cache"), TORCHINDUCTOR_COMPILE_THREADS="1",
    )  # fmt: skip
    assert done.stdout.decode().count("equal") == 2


_FAILING = """
import torch, hvdlite.torch as torch_hvd
hvd.init()

class Fragile(torch_hvd.compression.Compressor):
    def compress(self, tensor, name=None):
        if RANK == 1 and step == 3:
            raise OSError("no room in the compressor")
        return tensor * 1, None

torch.manual_seed(0)
net = torch.nn.Linear(4, 3)
optimizer = torch_hvd.DistributedOptimizer(
    torch.optim.SGD(net.parameters(), lr=0.1), net.named_parameters(), compression=Fragile()
)
for step in range(6):
    optimizer.zero_grad()
    net(torch.ones(2, 4)).sum().backward()
    try:
        optimizer.step()
    except hvd.HorovodInternalError as error:
        tell(step=step, error=type(error).__name__, text=str(error),
             peer=getattr(error, "rank", None))
        raise SystemExit(0)
tell(step=step)
"""


@pytest.mark.watchdog(120)
def test_a_failure_in_a_hook_ends_the_step_everywhere_and_says_whose_it_was(
    two_ranks: Ranks,
) -> None:
    two_ranks.start(_FAILING, OMP_NUM_THREADS="1")
    codes = two_ranks.wait(90)
    assert codes[1] == 1 and "no room in the compressor" in two_ranks.outputs()
    told = two_ranks.last(0)
    assert told["step"] == 3 and told["peer"] == 1 and told["error"] == "PeerLostError", told
    assert "no room in the compressor" in told["text"]


_OTHER_MODEL = """
import torch, hvdlite.torch as torch_hvd
hvd.init()
torch.manual_seed(0)
net = torch.nn.Sequential(*(torch.nn.Linear(4, 4) for _ in range(1 + RANK)))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
optimizer = torch_hvd.DistributedOptimizer(optimizer, net.named_parameters())
net(torch.ones(2, 4)).sum().backward()
try:
    optimizer.step()
except hvd.MismatchError as error:
    tell(text=str(error))
"""


@pytest.mark.watchdog(120)
def test_ranks_with_different_models_are_told_so_at_the_first_step(two_ranks: Ranks) -> None:
    two_ranks.start(_OTHER_MODEL, OMP_NUM_THREADS="1")
    two_ranks.wait(90)
    for rank in range(2):
        text = two_ranks.last(rank)["text"]
        assert (
            "Rank 0 trains 2 parameters, but rank 1 4. On rank 1 '1.weight' is trained" in text
        ), text
        assert "All ranks must build" in text


_NOTHING_LOADED = """
import sys
import hvdlite
import hvdlite.launch.cli
assert "torch" not in sys.modules
import hvdlite.torch as hvd
hvd.init()
import torch
print(hvd.allreduce(torch.ones(2)).tolist(), flush=True)
"""


def test_the_last_line_quotes_what_a_worker_of_the_dataloader_has_raised(job: Job) -> None:
    """The process of the worker raises it, and the rank raises it again with both tracebacks."""
    script = job.script(
        "import torch, hvdlite.torch as hvd\n"
        "hvd.init()\n"
        "rank = hvd.rank()\n"
        "class Samples(torch.utils.data.Dataset):\n"
        "    def __len__(self):\n"
        "        return 4\n"
        "    def __getitem__(self, index):\n"
        "        if rank == 1 and index == 2:\n"
        "            raise ValueError(f'bad sample {index}')\n"
        "        return torch.ones(3)\n"
        "for batch in torch.utils.data.DataLoader(Samples(), num_workers=1):\n"
        "    hvd.allreduce(batch, name='batch')\n"
        "hvd.allreduce(torch.ones(3), name='end')\n"
    )
    done = job.run("-np", "2", "python", script)
    assert done.returncode == 1
    assert last_line(done.stderr) == (
        "hvdliterun: rank 1 on localhost exited with code 1: ValueError: bad sample 2 at "
        "script.py:9 (__getitem__). All other ranks have ended, too."
    )


def test_without_a_launcher_it_is_a_job_of_one(job: Job) -> None:
    import sys

    done = job.command(sys.executable, job.script(_NOTHING_LOADED))
    assert done.stdout.strip() == "[1.0, 1.0]", done.stderr
