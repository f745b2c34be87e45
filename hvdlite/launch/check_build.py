"""`hvdliterun --check-build`: lists what this installation can do, and tests it: two ranks add
numbers with each framework.

With -v it also says what carries tensors between two ranks and why, and which MPI there is. Each
test runs in a process of its own, because a library may fail to load.
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata, util

from hvdlite import __version__

_TIMEOUT = 120.0

# A small sum on both ranks; rank 0 says what it used.
_SUM = """
import {module} as hvd
{prepare}
hvd.init()
total = hvd.allreduce({one}, op=hvd.Sum)
assert {value} == hvd.size() == 2, total
"""

_GROUP = """
import torch, torch.distributed as dist
import hvdlite.torch.distributed
hvdlite.torch.distributed.init()
total = torch.ones(3)
dist.all_reduce(total)
assert dist.get_backend() == "hvdlite" and total[0].item() == 2, total
"""

# Rank 0 is the driver of a cluster of its own, and the ranks that add are Ray's.
_BY_RAY = """
import hvdlite as hvd
def add():
    import numpy
    hvd.init()
    return hvd.allreduce(numpy.ones(3), op=hvd.Sum)[0]
hvd.init()
if hvd.rank() == 0:
    import ray
    from hvdlite.ray import RayExecutor
    ray.init("local", num_cpus=2, include_dashboard=False, object_store_memory=80 << 20)
    executor = RayExecutor(RayExecutor.create_settings(), num_workers=2)
    executor.start()
    assert executor.run(add) == [2, 2]
    executor.shutdown()
    ray.shutdown()
hvd.barrier()
"""

_SHARES = """
from torch.utils.data import DataLoader
import hvdlite.torch as hvd
hvd.init()
batches = list(hvd.data.shard(DataLoader(list(range(8)), 2)))
assert len(batches) == hvd.size() == 2, batches
"""


# One of the two is killed. A new process may come for it.
_DIES = """
import os, signal, numpy
import hvdlite as hvd
hvd.init()
state = hvd.elastic.ObjectState(step=0)
@hvd.elastic.run
def train(state):
    while state.step < 20:
        if state.step == 5 and hvd.elastic.member() == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        hvd.allreduce(numpy.ones(3), op=hvd.Sum)
        state.step += 1
        state.commit()
train(state)
assert state.step == 20 and hvd.elastic.generation() > 1, (state.step, hvd.elastic.generation())
"""

# Why the core carries tensors in this way.
_EXPLAIN = """
import numpy
import hvdlite as hvd
from hvdlite import _core
hvd.init()
assert hvd.allreduce(numpy.ones(3), op=hvd.Sum)[0] == 2
print(_core.explain(0), flush=True)
"""

_CARRIERS: tuple[tuple[str, list[str], dict[str, str]], ...] = (
    ("on one host", ["-H", "localhost:2", "--gloo"], {}),
    ("on two hosts (pretended)", ["-H", "localhost:1,127.0.0.1:1", "--gloo"], {}),
    ("over MPI, by --mpi", ["-H", "localhost:2", "--mpi"], {"HVDLITE_CPU_OPERATIONS": "mpi"}),
)


_LIGHTNING = """
import importlib, logging, warnings
warnings.simplefilter("ignore")
logging.disable(logging.WARNING)
import torch
import hvdlite.lightning
from hvdlite.lightning.packages import preferred
pl = importlib.import_module(preferred())
class Model(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(2, 1)
    def training_step(self, batch, number):
        return self.layer(batch).sum()
    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.1)
trainer = pl.Trainer(
    strategy=hvdlite.lightning.HvdliteStrategy(), fast_dev_run=1, logger=False,
    enable_progress_bar=False, enable_model_summary=False, accelerator="cpu",
)
trainer.fit(Model(), torch.utils.data.DataLoader(torch.ones(4, 2)))
assert trainer.world_size == 2 and torch.distributed.get_backend() == "hvdlite"
"""

_ACCELERATE = """
import torch, hvdlite.torch.distributed
hvdlite.torch.distributed.init()
from accelerate import Accelerator
accelerator = Accelerator()
total = accelerator.reduce(torch.ones(3, device=accelerator.device))
assert accelerator.num_processes == 2 == total[0].item(), total
"""

_TRANSFORMERS = """
import os, tempfile, torch, hvdlite.torch.distributed
os.environ["HF_HUB_OFFLINE"] = "1"
hvdlite.torch.distributed.init()
from transformers import Trainer, TrainingArguments
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(2, 1)
    def forward(self, numbers, labels=None):
        return {"loss": self.layer(numbers).sum()}
with tempfile.TemporaryDirectory() as folder:
    arguments = TrainingArguments(
        folder, max_steps=1, report_to=[], save_strategy="no", disable_tqdm=True,
        logging_strategy="no", remove_unused_columns=False,
    )
    Trainer(Model(), arguments, train_dataset=[{"numbers": torch.ones(2)}] * 16).train()
assert arguments.world_size == 2 and torch.distributed.get_backend() == "hvdlite"
"""

_OPTUNA = """
import optuna, hvdlite as hvd, hvdlite.optuna
optuna.logging.set_verbosity(optuna.logging.ERROR)
hvd.init()
seen = []
study = optuna.create_study() if hvd.rank() == 0 else None
hvdlite.optuna.optimize(study, lambda trial: seen.append(trial.suggest_float("x", 0, 1)) or 1.0, 1)
first, second = hvd.allgather_object(seen)
assert first == second and len(first) == 1, (first, second)
"""


def _sum(module: str, prepare: str, one: str, value: str) -> str:
    return _SUM.format(module=module, prepare=prepare, one=one, value=value)


@dataclass(frozen=True)
class CheckedFramework:
    title: str
    package: str  # the module to import
    program: str = ""
    # packages whose version is shown: the first one that is installed
    distributions: tuple[str, ...] = ()  # none: it has the module's name
    flags: tuple[str, ...] = ()  # of hvdliterun, beside those of all

    def version(self) -> str | None:
        """Returns the version without importing anything; None: not installed."""
        if util.find_spec(self.package) is None:
            return None
        for name in self.distributions or (self.package,):
            try:
                return metadata.version(name)
            except metadata.PackageNotFoundError:
                continue
        return "of unknown version"


_ONES = "numpy.ones(3, numpy.float32)"
FRAMEWORKS = (
    CheckedFramework("numpy", "numpy", _sum("hvdlite", "import numpy", _ONES, "total[0]")),
    CheckedFramework(
        "PyTorch", "torch",
        _sum("hvdlite.torch", "import torch", "torch.ones(3)", "total[0].item()"),
    ),
    CheckedFramework('backend "hvdlite" of torch.distributed, PyTorch', "torch", _GROUP),
    CheckedFramework("hvd.data.shard() of a DataLoader, PyTorch", "torch", _SHARES),
    CheckedFramework(
        "TensorFlow", "tensorflow",
        _sum("hvdlite.tensorflow", "import tensorflow as tf", "tf.ones(3)", "float(total[0])"),
        ("tensorflow", "tensorflow-cpu", "tensorflow-gpu", "tf-nightly"),
    ),
    CheckedFramework("Keras", "keras", _sum("hvdlite.keras", "import numpy", _ONES, "total[0]")),
    CheckedFramework(
        "JAX", "jax", _sum("hvdlite.jax", "import jax", "jax.numpy.ones(3)", "float(total[0])")
    ),
    CheckedFramework(
        "Lightning", "pytorch_lightning", _LIGHTNING, ("lightning", "pytorch-lightning")
    ),
    CheckedFramework("Accelerate", "accelerate", _ACCELERATE),
    CheckedFramework("Transformers' Trainer", "transformers", _TRANSFORMERS),
    CheckedFramework(
        "elastic training (a rank is killed, and the job goes on), numpy", "numpy", _DIES,
        flags=("--min-np", "1"),
    ),
    CheckedFramework("Optuna", "optuna", _OPTUNA),
    CheckedFramework("hvdlite.ray, Ray", "ray", _BY_RAY),
)  # fmt: skip


def run(verbose: bool) -> int:
    """Prints the summary. Returns 0 if everything that is installed works."""
    print(
        f"hvdlite {__version__}, Python {platform.python_version()}, {platform.machine()}\n",
        flush=True,
    )
    print("Frameworks (two ranks add with each that is installed):", flush=True)
    well = True
    for framework in FRAMEWORKS:
        version = framework.version()
        if version is None:
            print(f"    [ ] {framework.title}", flush=True)
            continue
        began = time.monotonic()
        problem = two_ranks(
            ["-H", "localhost:2", "--gloo", *framework.flags], framework.program
        ).problem
        well = well and not problem
        mark, said = (
            ("!", f"FAILED: {problem}")
            if problem
            else ("X", f"works ({time.monotonic() - began:.1f} s)")
        )
        print(f"    [{mark}] {framework.title} {version}: {said}", flush=True)
    spark = CheckedFramework("Spark", "pyspark").version()  # jobs run on it, and it runs no check
    _show("Libraries", [(bool(spark), f"Spark{f' {spark}' if spark else ''}: hvdlite.spark")])
    for title, rows in _facts():
        _show(title, rows)
    if verbose:
        _show("The way of tensors between two ranks", carriers())
        _show("MPI", mpi())
        spec = util.find_spec("hvdlite")
        where = spec.origin if spec else "?"
        print(f"\nInterpreter: {sys.executable}\nInstalled in: {where}")
    return 0 if well else 1


def _show(title: str, rows: Iterable[tuple[bool, str]]) -> None:
    print(f"\n{title}:", flush=True)
    for there, text in rows:
        print(f"    [{'X' if there else ' '}] {text}", flush=True)


def _facts() -> Iterator[tuple[str, Iterable[tuple[bool, str]]]]:
    """Yields what the native core says about itself. Asks in another process, because the core may
    fail to load."""
    asked = attempt(["-c", "from hvdlite.job.horovod_basics import mpi_built; print(mpi_built())"])
    if asked.problem:
        yield "Native core", [(False, asked.problem)]
        return
    mpi = asked.lines[0] == "True"
    yield (
        "Controllers",
        [
            (mpi, f"MPI: mpi4py finds {'a' if mpi else 'no'} library"),
            (True, "Gloo's place: hvdlite's own, over TCP"),
        ],
    )
    between = [(True, "shared memory within a host, TCP between hosts"), (mpi, "MPI between hosts")]
    yield "Tensor operations", between
    yield "Tensors on a GPU", gpu()


def carriers() -> Iterator[tuple[bool, str]]:
    """Yields for each carrier whether it works, and why tensors would use it."""
    for title, flags, variables in _CARRIERS:
        tried = two_ranks(flags, _EXPLAIN, _environment_without_carrier() | variables)
        why = [line.partition(":")[2] for line in tried.lines if line.startswith("[0]")]
        works = not tried.problem and bool(why)
        yield works, f"{title}: {why[0] if works else tried.problem or 'rank 0 has said nothing'}"


def mpi() -> Iterator[tuple[bool, str]]:
    """Yields what mpi4py loads here, or why there is nothing."""
    tried = attempt(["-m", "hvdlite.job.libraries", "mpi"], _environment_without_carrier())
    yield from [(False, tried.problem)] if tried.problem else ((True, line) for line in tried.lines)


def gpu() -> Iterator[tuple[bool, str]]:
    """Yields the kernels, the driver and NCCL, or why one is missing."""
    tried = attempt(["-m", "hvdlite.job.libraries", "gpu"])
    yield from (
        [(False, tried.problem)]
        if tried.problem
        else ((line[0] == "X", line[2:]) for line in tried.lines)
    )


def _environment_without_carrier() -> dict[str, str]:
    """Returns the environment without settings that choose a carrier."""
    return {
        name: value for name, value in os.environ.items() if not name.endswith("_CPU_OPERATIONS")
    }


@dataclass(frozen=True)
class CheckRun:
    lines: tuple[str, ...] = ()  # of stdout
    problem: str = ""  # empty: the exit code was 0. Otherwise the last line of stderr


def attempt(arguments: Sequence[str], environment: Mapping[str, str] | None = None) -> CheckRun:
    """Runs the interpreter with these arguments."""
    try:
        done = subprocess.run(
            [sys.executable, *arguments],
            capture_output=True,
            text=True,
            timeout=_TIMEOUT,
            env=os.environ if environment is None else environment,
        )
    except subprocess.TimeoutExpired:
        return CheckRun(problem=f"no answer within {_TIMEOUT:g} s")
    last = done.stderr.strip().rsplit("\n", 1)[-1].removeprefix("hvdliterun: ")
    return CheckRun(
        tuple(done.stdout.splitlines()),
        (last or f"exit code {done.returncode}") if done.returncode else "",
    )


def two_ranks(
    flags: Sequence[str], program: str, environment: Mapping[str, str] | None = None
) -> CheckRun:
    """Runs the text of a program on two ranks that hvdliterun starts."""
    launch = ["-m", "hvdlite.launch", "-np", "2", *flags]
    return attempt([*launch, sys.executable, "-c", program], environment)
