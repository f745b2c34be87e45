"""The backend hvdlite of torch.distributed, in programs that import torch alone."""

from __future__ import annotations

import re
import subprocess
import time
from importlib.metadata import version
from pathlib import Path

import pytest
from installed import needs_installed
from launched import ROOT, Job, prefixed
from machine import within
from mpis import end_well, finish, start
from others import PYTHON, free_port, torchs_variables
from tier import one_of
from waiting import wait_until

needs_installed("torch")

HERE = Path(__file__).parent
COLLECTIVES = str(HERE / "torch_collectives_program.py")
TRAINING = str(HERE / "torch_training_program.py")
CHECKS = 20


def started(job: Job, size: int, *command: str) -> list[subprocess.Popen[bytes]]:
    """Ranks that torchrun could have started."""
    shared = torchs_variables() | {"WORLD_SIZE": str(size), "HVDLITE_HEARTBEAT_SECONDS": "0"}
    return [start(job, [PYTHON, *command], **shared | {"RANK": str(rank)}) for rank in range(size)]


def run(job: Job, size: int, *command: str) -> list[str]:
    """The lines of all ranks."""
    lines = end_well(*started(job, size, *command), seconds=100).splitlines()
    return [line for line in lines if not line.startswith("[Gloo]")]  # of older versions of torch


def told(lines: list[str], size: int, *checks: str) -> None:
    """Each rank has come through each of these."""
    for check in checks:
        assert lines.count(check) == size, "\n".join(lines)


@pytest.mark.costly
@pytest.mark.watchdog(120)
def test_collectives_give_what_gloo_gives(job: Job) -> None:
    lines = run(job, 2, COLLECTIVES)
    told(lines, 2, "equals_gloo", "futures", "mismatches_are_told", "what_torch_asks")
    assert len(lines) == 2 * CHECKS, "\n".join(lines)


@pytest.mark.costly
@pytest.mark.watchdog(120)
def test_ddp_has_gloos_losses(job: Job) -> None:
    checks = ("ddp", "gradients_are_equal_on_all_ranks", "hooks_of_ddp")
    checks += ("ddp_with_sparse_gradients", "ddp_as_with_a_torch_that_forgets_works")
    told(run(job, 2, TRAINING, *checks), 2, *checks)


_DEATH = """
import os, sys, time, torch, torch.distributed as dist
dist.init_process_group("hvdlite")
rank = dist.get_rank()
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(64, 64))
model(torch.ones(1, 64)).sum().backward()
dist.barrier()
open(f"ready.{rank}", "w").write(str(os.getpid()))
if rank == 1:
    while True: time.sleep(60)  # until killed
ways = {
    "all_reduce": lambda: dist.all_reduce(tensor),
    "later": lambda: dist.all_reduce(tensor, async_op=True).wait(),
    "future": lambda: dist.all_reduce(tensor, async_op=True).get_future().wait(),
    "backward": lambda: model(torch.ones(1, 64)).sum().backward(),
    "functional": lambda: functional.all_reduce(tensor, "sum", dist.group.WORLD) + 0,
}
import torch.distributed._functional_collectives as functional
tensor = torch.ones(3)
try:
    ways[sys.argv[1]]()
except BaseException as error:
    open("heard", "w").write(f"{time.monotonic()} {type(error).__name__} {error}")
    os._exit(0)
open("heard", "w").write(f"{time.monotonic()} nothing {tensor.tolist()}")
os._exit(1)
"""


@pytest.mark.costly
@pytest.mark.watchdog(120)
@pytest.mark.parametrize("way", ["backward", "all_reduce", "later", "future", "functional"])
def test_a_killed_rank_is_an_error_of_its_peer_at_once(job: Job, way: str) -> None:
    script = job.script(_DEATH)
    processes = started(job, 2, script, way)
    job.wait_for_files(["ready.0", "ready.1"], 60)
    processes[1].kill()
    died = time.monotonic()
    wait_until(lambda: processes[0].poll() is not None, 20)
    heard, kind, text = (job.directory / "heard").read_text().split(" ", 2)
    expected = "RuntimeError" if way == "future" else "PeerLostError"
    assert kind == expected and "rank 1" in text, (kind, text)
    assert float(heard) - died < within(1), text
    assert finish(processes[0])[0] == [0]


# ---- other launchers

_SUM = """
import os, torch, torch.distributed as dist
import sys
loaded = {name for name in sys.modules if name.startswith(("hvdlite.torch.", "hvdlite._core"))}
assert loaded <= {"hvdlite.torch.autoload", "hvdlite.torch.mpi_ops"}, loaded
dist.init_process_group("hvdlite")
tensor = torch.ones(2) * (dist.get_rank() + 1)
dist.all_reduce(tensor)
os.write(1, f"sum {tensor.tolist()}\\n".encode())
dist.destroy_process_group()
import hvdlite
assert not hvdlite.is_initialized()
"""

# Where the launcher has the store. Else it ends with rank 0's first group, and rank 1 may have
# connected to it for the second one.
_AGAIN = (
    _SUM
    + """
dist.init_process_group("hvdlite")
dist.all_reduce(tensor)
os.write(1, f"again {tensor.tolist()}\\n".encode())
dist.destroy_process_group()
"""
)


_TIMEOUT = """
import datetime, os, time, torch.distributed as dist
dist.init_process_group("hvdlite", timeout=datetime.timedelta(seconds=1))
if dist.get_rank() == 1:
    while not os.path.exists("told"): time.sleep(0.01)  # poll
try:
    dist.barrier()
except Exception as error:
    os.write(1, f"{dist.get_rank()}: {error}\\n".encode())
    open("told", "w").close()
dist.destroy_process_group()
"""


@pytest.mark.watchdog(120)
def test_torchs_timeout_ends_an_operation_and_names_the_rank_that_does_not_come(job: Job) -> None:
    lines = run(job, 2, job.script(_TIMEOUT, "train.py"))
    assert any(
        line.startswith("0: ") and "rank 1 has not asked for barrier" in line for line in lines
    ), lines


_ENDS = """
import os, time, torch, torch.distributed as dist
dist.init_process_group("hvdlite")
halves = [dist.new_group([0, 1]), dist.new_group([2, 3])]
if dist.get_rank() < 2:
    store = dist.group.WORLD.get_group_store()
    while store.add("hvdlite leaving 1", 0) < 2: time.sleep(0.01)  # poll
    tensor = torch.ones(1)
    dist.all_reduce(tensor, group=halves[0])
    os.write(1, f"{tensor.item()}\\n".encode())
dist.destroy_process_group()
"""


@pytest.mark.watchdog(120)
def test_a_rank_that_leaves_does_not_end_a_group_that_it_is_not_in(job: Job) -> None:
    assert run(job, 4, job.script(_ENDS)).count("2.0") == 2


_LATER = """
import os, time, torch.distributed as dist
dist.init_process_group("hvdlite")
dist.barrier()
if dist.get_rank() == 1:
    from hvdlite import _core
    while not (os.path.exists("left") and _core.ended()): time.sleep(0.01)  # poll
dist.destroy_process_group()
open("left", "w").close()
"""


@pytest.mark.costly
@pytest.mark.watchdog(120)
def test_nothing_is_printed_where_a_rank_leaves_behind_the_others(job: Job) -> None:
    """Rank 0 has torch's store, which prints what it has waited for, and takes it along."""
    lines = run(job, 2, job.script(_LATER))
    assert not [line for line in lines if "waitForInput" in line or "TCPStore" in line], lines


@pytest.mark.costly
@pytest.mark.watchdog(120)
def test_hvdliterun_with_torchs_variables(job: Job) -> None:
    done = job.end_well("-np", "2", "--torch-distributed", "python", job.script(_SUM))
    for rank in range(2):
        assert prefixed(done.stdout, rank) == ["sum [3.0, 3.0]"]


@pytest.mark.costly
@pytest.mark.watchdog(120)
def test_torchrun_and_a_second_group_in_one_process(job: Job) -> None:
    command = [PYTHON, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    lines = end_well(start(job, [*command, job.script(_AGAIN)]), seconds=100)
    assert lines.count("sum [3.0, 3.0]") == lines.count("again [6.0, 6.0]") == 2, lines


_SPAWNED = """
import os, sys, torch, torch.distributed as dist, torch.multiprocessing as mp
def main(rank, port, file):
    if file:
        how = {"init_method": f"file://{file}"}
    else:
        how = {"init_method": f"tcp://127.0.0.1:{port}"}
    dist.init_process_group("hvdlite", rank=rank, world_size=2, **how)
    tensor = torch.ones(2)
    dist.all_reduce(tensor)
    os.write(1, f"sum {tensor.tolist()}\\n".encode())
    dist.destroy_process_group()
if __name__ == "__main__":
    mp.spawn(main, (int(sys.argv[1]), ""), nprocs=2)
    mp.spawn(main, (0, sys.argv[2]), nprocs=2)
"""


@pytest.mark.costly
@pytest.mark.watchdog(120)
def test_spawned_processes_that_meet_at_a_port_and_at_a_file(job: Job) -> None:
    command = [PYTHON, job.script(_SPAWNED), str(free_port()), str(job.directory / "meeting")]
    lines = end_well(start(job, command), seconds=100)
    assert lines.count("sum [2.0, 2.0]") == 4, lines


_INIT = """
import os, torch, torch.distributed as dist
import hvdlite.torch as hvd
import hvdlite.torch.distributed
hvdlite.torch.distributed.init()
hvdlite.torch.distributed.init()
assert hvd.size() == dist.get_world_size() == int(os.environ["WORLD_SIZE"]) == 2
assert hvd.rank() == dist.get_rank() == int(os.environ["RANK"]) == int(os.environ["LOCAL_RANK"])
tensor = torch.ones(2)
dist.all_reduce(tensor)
mesh = dist.device_mesh.init_device_mesh("cpu", (2,))
gloo = dist.new_group(backend="gloo")
dist.all_reduce(tensor, group=gloo)
os.write(1, f"sum {tensor.tolist()}\\n".encode())
dist.destroy_process_group()
assert not hvd.is_initialized()
dist.init_process_group("hvdlite")  # by the variables
dist.all_reduce(tensor)
os.write(1, f"again {tensor.tolist()}\\n".encode())
dist.destroy_process_group()
"""


@pytest.mark.costly
@pytest.mark.watchdog(120)
def test_one_line_under_plain_hvdliterun(job: Job) -> None:
    done = job.end_well("-np", "2", "python", job.script(_INIT))
    for rank in range(2):
        assert prefixed(done.stdout, rank) == ["sum [4.0, 4.0]", "again [8.0, 8.0]"]


# ---- programs that name another backend

_HARD_CODED = """
import os, sys, torch, torch.distributed as dist
from torch.distributed import init_process_group
if sys.argv[1] == "init":
    import hvdlite.torch.distributed
    hvdlite.torch.distributed.init()
    init_process_group("nccl", init_method="env://")
    try:
        init_process_group("gloo", rank=0, world_size=3)
    except ValueError as error:
        assert "twice" in str(error)
    else:
        raise AssertionError("other ranks")
elif sys.argv[1] == "mesh":
    dist.device_mesh.init_device_mesh("cpu", (2,))
else:
    init_process_group(sys.argv[1])
tensor = torch.ones(2)
dist.all_reduce(tensor)
side = dist.new_group(backend="gloo")
dist.all_reduce(tensor, group=side)
line = f"{dist.get_backend()} {dist.get_backend(side)} {tensor.tolist()}\\n"
os.write(1, line.encode())  # whole, whoever else writes there
dist.destroy_process_group()
"""
_CARRIES_NOTHING = "hvdlite: the program's default group is gloo: hvdlite carries nothing"
_INSTEAD = "hvdlite: the default group is of hvdlite, not of"


def hard_coded(job: Job, asked: str, *flags: str, **environment: str) -> tuple[list[str], str]:
    """What rank 0 prints, and what all ranks say on stderr."""
    script = job.script(_HARD_CODED)
    done = job.end_well("-np", "2", *flags, PYTHON, script, asked, **environment)
    lines = [prefixed(done.stdout, rank) for rank in range(2)]
    assert lines[0] == lines[1], lines
    return lines[0], done.stderr.decode()


@pytest.mark.costly
@pytest.mark.watchdog(120)
@pytest.mark.parametrize("asked", ("gloo", "nccl", "mesh"))
def test_gloo_and_nccl_become_hvdlite_if_it_is_asked_for(job: Job, asked: str) -> None:
    lines, said = hard_coded(job, asked, "--torch-distributed=hvdlite")
    assert lines == ["hvdlite gloo [4.0, 4.0]"]
    assert said.count(_INSTEAD) == 1 and _CARRIES_NOTHING not in said, said


@pytest.mark.costly
@pytest.mark.watchdog(120)
def test_a_group_over_which_hvdlite_carries_nothing_is_told_once(job: Job) -> None:
    lines, said = hard_coded(job, "gloo", "--torch-distributed")
    assert lines == ["gloo gloo [4.0, 4.0]"]
    assert said.count(_CARRIES_NOTHING) == 1 and "--torch-distributed=hvdlite" in said, said


@pytest.mark.full
@pytest.mark.watchdog(120)
def test_a_group_that_is_meant_is_not_told(job: Job) -> None:
    lines, said = hard_coded(job, "gloo", "--torch-env", HVDLITE_TORCH_BACKEND="keep")
    assert lines == ["gloo gloo [4.0, 4.0]"]
    assert "hvdlite carries" not in said and "HVDLITE_TORCH_BACKEND" not in said, said


@pytest.mark.costly
@pytest.mark.watchdog(120)
def test_the_programs_own_init_process_group_goes_on_with_the_group_of_init(job: Job) -> None:
    lines, said = hard_coded(job, "init")
    assert lines == ["hvdlite gloo [4.0, 4.0]"]
    assert said.count("the program goes on with it: init_process_group(nccl)") == 1, said


@pytest.mark.full
@pytest.mark.watchdog(120)
def test_torchrun_and_a_program_that_names_gloo(job: Job) -> None:
    command = [PYTHON, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    command += [job.script(_HARD_CODED), "gloo"]
    lines = end_well(start(job, command, HVDLITE_TORCH_BACKEND="replace"), seconds=100)
    assert lines.count("hvdlite gloo [4.0, 4.0]") == 2, lines


_MIXED = """
import os, sys, torch, torch.distributed as dist, torch.distributed.checkpoint as dcp
import hvdlite.torch.distributed
dist.init_process_group("cpu:hvdlite,cuda:gloo")
rank, cpu = dist.get_rank(), torch.device("cpu")
backend = dist.group.WORLD._get_backend(cpu)
assert type(backend).__name__ == "DeviceBackend"
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 2))
for _ in range(3):
    model.zero_grad()
    model(torch.full((1, 4), rank + 1.0)).sum().backward()
    assert model.module.weight.grad[0].tolist() == [1.5] * 4
assert backend.by_backward.completed > 0  # no thread completes what a backward pass waits for
gathered = [None, None]
dist.all_gather_object(gathered, {"of": rank})
assert gathered == [{"of": 0}, {"of": 1}]
dist.barrier(dist.new_group([0, 1]))
dcp.save({"model": model.state_dict()}, checkpoint_id="saved")
loaded = {"model": {name: torch.zeros_like(v) for name, v in model.state_dict().items()}}
dcp.load(loaded, checkpoint_id="saved")
for name, value in model.state_dict().items():
    assert torch.equal(loaded["model"][name], value)
work = dist.all_reduce(torch.ones(2), async_op=True)
if rank == 1:
    work.wait()
    os.kill(os.getpid(), 9)
try:
    while True:
        work.wait()
        work = dist.all_reduce(torch.ones(2), async_op=True)
except Exception as error:
    os.write(1, f"{type(error).__name__}: {error}\\n".encode())
    os._exit(0)
"""


@pytest.mark.costly
@pytest.mark.watchdog(120)
def test_one_backend_for_each_device(job: Job) -> None:
    if tuple(map(int, version("torch").split(".")[:2])) < (2, 14):
        pytest.skip("torch has one backend in Python for all devices before 2.14")
    _, output = finish(*started(job, 2, job.script(_MIXED)), seconds=100)
    assert "PeerLostError: rank 1 died" in output, output


_LEFT_TO_THE_PROGRAM = """
import torch.distributed as dist, hvdlite.torch as hvd, torch
hvd.init()
dist.init_process_group("hvdlite")
dist.barrier()
dist.destroy_process_group()
print("sum", hvd.allreduce(torch.ones(2), op=hvd.Sum).tolist(), flush=True)
"""


@pytest.mark.full
@pytest.mark.watchdog(120)
def test_a_job_that_the_program_has_joined_outlives_the_group(job: Job) -> None:
    script = job.script(_LEFT_TO_THE_PROGRAM)
    done = job.end_well("-np", "2", "--torch-env", "python", script)
    assert done.stdout.decode().count("sum [2.0, 2.0]") == 2


_OTHER_RANKS = """
import torch.distributed as dist, hvdlite, os
hvdlite.init()
try:
    dist.init_process_group("hvdlite", rank=1 - hvdlite.rank(), world_size=2)
except RuntimeError as error:
    print(error, flush=True)
os._exit(0)
"""


@pytest.mark.full
@pytest.mark.watchdog(120)
def test_a_group_whose_ranks_are_not_the_jobs_is_refused(job: Job) -> None:
    done = job.end_well("-np", "2", "--torch-env", "python", job.script(_OTHER_RANKS))
    for rank in range(2):
        (line,) = prefixed(done.stdout, rank)
        assert f"rank {1 - rank} of 2, but hvdlite's job has rank {rank} of 2" in line


# ---- torch's import

_IMPORT = """
import sys
import torch
loaded = [name for name in sys.modules if name.partition(".")[0] == "hvdlite"]
print(*sorted(loaded))
print("hvdlite" in torch.distributed.Backend.backend_list)
"""


def _imported(job: Job, **environment: str) -> list[str]:
    done = subprocess.run(
        [PYTHON, "-c", _IMPORT], env=job.environment(**environment), cwd=job.directory,
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return done.stdout.splitlines()


def test_import_torch_learns_the_name_and_loads_nothing_of_hvdlite(job: Job) -> None:
    loaded, known = _imported(job)
    allowed = {"hvdlite", "hvdlite.base", "hvdlite.base.operations"}
    allowed |= {"hvdlite.torch", "hvdlite.torch.mpi_ops", "hvdlite.torch.autoload"}
    assert set(loaded.split()) <= allowed and known == "True"


@pytest.mark.full
def test_the_autoload_of_backends_can_be_turned_off(job: Job) -> None:
    assert _imported(job, TORCH_DEVICE_BACKEND_AUTOLOAD="0") == ["", "False"]


def test_torch_can_be_imported_whatever_happens_in_the_entry_point(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import torch.distributed as dist

    from hvdlite.torch import autoload

    def fails(*_: object, **__: object) -> None:
        raise RuntimeError("another torch")

    monkeypatch.setattr(dist.Backend, "register_backend", fails)
    autoload.register()
    (line,) = capsys.readouterr().err.splitlines()
    assert line == "hvdlite: torch.distributed has no backend hvdlite: RuntimeError: another torch"


def test_torch_can_be_imported_where_hvdlite_cannot(job: Job) -> None:
    """An installation whose package is broken, before any other on the path."""
    folder = job.directory / "broken"
    (folder / "hvdlite").mkdir(parents=True)
    (folder / "hvdlite" / "__init__.py").write_text("raise OSError('half of it is missing')\n")
    (folder / "hvdlite-0.dist-info").mkdir()
    project = (ROOT / "pyproject.toml").read_text()
    (section,) = re.findall(r'(?<=entry-points."torch.backends"\]\n)hvdlite = "(.+)"', project)
    (folder / "hvdlite-0.dist-info" / "METADATA").write_text("Name: hvdlite\nVersion: 0\n")
    (folder / "hvdlite-0.dist-info" / "entry_points.txt").write_text(
        f"[torch.backends]\nhvdlite = {section}\n"
    )
    module = section.partition(":")[0]
    (folder / f"{module}.py").write_text((ROOT / f"{module}.py").read_text())
    done = subprocess.run(
        [PYTHON, "-c", "import torch; print(torch.ones(2).sum())"], capture_output=True, text=True,
        env=job.environment(PYTHONPATH=str(folder)), cwd=job.directory,
    )  # fmt: skip
    assert done.stdout == "tensor(2.)\n", done.stderr
    assert done.stderr.splitlines() == [
        "hvdlite: torch.distributed has no backend hvdlite: OSError: half of it is missing"
    ]


# ---- programs that do not know that they are ranks

_ALONE = """
import sys, torch
from torch.optim.optimizer import register_optimizer_step_post_hook as after
after(lambda *_: None)  # a program's own, behind hvdlite's
model = torch.nn.Linear(2, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
if "hvd" in sys.argv:
    import hvdlite.torch as hvd
    hvd.init()
if "group" in sys.argv:
    torch.distributed.init_process_group("gloo")
for _ in range(3):
    model(torch.ones(1, 2)).sum().backward()
    optimizer.step()
"""
_TRAP = "hvdlite: this rank trains a model of its own."


@pytest.mark.costly
@pytest.mark.watchdog(120)
def test_ranks_that_train_alone_are_told_so_once_and_while_they_train(job: Job) -> None:
    script = job.script(_ALONE)
    err = job.end_well("-np", "2", "python", script).stderr.decode()
    assert err.count(_TRAP) == 1 and err.index(_TRAP) < err.index("no rank has called"), err


@pytest.mark.full
@pytest.mark.watchdog(120)
@pytest.mark.parametrize("how", one_of(("hvd", "group", "on purpose"), "ranks that are no trap"))
def test_ranks_that_train_together_or_alone_on_purpose_are_told_nothing(job: Job, how: str) -> None:
    flags = ["--torch-distributed"] if how == "group" else []
    variables = {"HVDLITE_ALLOW_SINGLETON": "1"} if how == "on purpose" else {}
    done = job.end_well("-np", "2", *flags, "python", job.script(_ALONE), how, **variables)
    assert _TRAP not in done.stderr.decode(), done.stderr.decode()


# ---- all of torch's wrappers

_WRAPPERS = (
    "ddp_with_reentrant_checkpoints", "ddp_joins_ranks_with_fewer_batches", "compiled_ddp",
    "compiled_collectives", "fsdp1", "fsdp2", "dtensor_and_checkpoint", "zero_redundancy",
)  # fmt: skip


def _torch() -> tuple[int, ...]:
    return tuple(int(number) for number in version("torch").split(".")[:2])


@pytest.mark.costly
@pytest.mark.watchdog(300)
@pytest.mark.parametrize("check", _WRAPPERS)
def test_wrappers_of_torch(job: Job, check: str) -> None:
    if check == "fsdp2" and _torch() < (2, 7):
        pytest.skip("FSDP 2 of torch before 2.7 needs a GPU")
    told(run(job, 2, TRAINING, check), 2, check)


@pytest.mark.costly
@pytest.mark.watchdog(300)
def test_four_ranks(job: Job) -> None:
    lines = run(job, 4, COLLECTIVES)
    assert len(lines) == 4 * CHECKS, "\n".join(lines)
