"""`hvdliterun --check-build`: what this installation can do, and the proof: two ranks that add with each framework."""

from __future__ import annotations

import platform
import subprocess
import sys
import time
from dataclasses import dataclass
from importlib import metadata, util

_TIMEOUT = 120.0

# A small sum on both ranks; rank 0 says what it used.
_SUM = """
import {module} as hvd
{prepare}
hvd.init()
total = hvd.allreduce({one}, op=hvd.Sum)
assert {value} == hvd.size() == 2, total
"""


@dataclass(frozen=True)
class Framework:
    title: str
    package: str  # what is imported
    distributions: tuple[str, ...]  # whose version is shown: the first that is installed
    module: str
    one: str
    value: str
    prepare: str = ""

    def program(self) -> str:
        return _SUM.format(module=self.module, prepare=self.prepare, one=self.one, value=self.value)

    def version(self) -> str | None:
        """None: not installed. Nothing is imported for it."""
        if util.find_spec(self.package) is None:
            return None
        for name in self.distributions:
            try:
                return metadata.version(name)
            except metadata.PackageNotFoundError:
                continue
        return "of unknown version"


FRAMEWORKS = (
    Framework(
        "numpy", "numpy", ("numpy",), "hvdlite", "numpy.ones(3, numpy.float32)", "total[0]", "import numpy",
    ),
    Framework("PyTorch", "torch", ("torch",), "hvdlite.torch", "torch.ones(3)", "total[0].item()", "import torch"),
    Framework(
        "TensorFlow", "tensorflow", ("tensorflow", "tensorflow-cpu", "tensorflow-gpu", "tf-nightly"),
        "hvdlite.tensorflow", "tf.ones(3)", "float(total[0])", "import tensorflow as tf",
    ),
    Framework(
        "Keras", "keras", ("keras",), "hvdlite.keras", "numpy.ones(3, numpy.float32)", "total[0]", "import numpy",
    ),
    Framework("JAX", "jax", ("jax",), "hvdlite.jax", "jax.numpy.ones(3)", "float(total[0])", "import jax"),
)  # fmt: skip


def run(verbose: bool) -> int:
    """Prints the summary; 0 when everything that is there works."""
    print(f"hvdlite {_own_version()}, Python {platform.python_version()}, {platform.machine()}\n", flush=True)
    print("Frameworks (two ranks add with each that is installed):", flush=True)
    well = True
    for framework in FRAMEWORKS:
        version = framework.version()
        if version is None:
            print(f"    [ ] {framework.title}", flush=True)
            continue
        problem, seconds = _try(framework)
        well = well and not problem
        mark, said = ("!", f"FAILED: {problem}") if problem else ("X", f"works ({seconds:.1f} s)")
        print(f"    [{mark}] {framework.title} {version}: {said}", flush=True)
    for title, rows in _facts():
        print(f"\n{title}:")
        for there, text in rows:
            print(f"    [{'X' if there else ' '}] {text}")
    if verbose:
        print(f"\nInterpreter: {sys.executable}\nInstalled in: {_folder()}")
    return 0 if well else 1


def _try(framework: Framework) -> tuple[str, float]:
    """What went wrong, or nothing; and how long it took."""
    began = time.monotonic()
    command = [sys.executable, "-m", "hvdlite.launch", "-np", "2", "-H", "localhost:2", "--gloo"]
    try:
        done = subprocess.run(
            [*command, sys.executable, "-c", framework.program()], capture_output=True, text=True, timeout=_TIMEOUT
        )
    except subprocess.TimeoutExpired:
        return f"no answer within {_TIMEOUT:g} s", _TIMEOUT
    last = done.stderr.strip().rsplit("\n", 1)[-1].removeprefix("hvdliterun: ")
    return (last or f"exit code {done.returncode}") if done.returncode else "", time.monotonic() - began


def _facts() -> list[tuple[str, list[tuple[bool, str]]]]:
    """What the native core says of itself, asked in another process: it may not even load."""
    questions = "from hvdlite import built as b; print(b.mpi_enabled(), bool(b.nccl_built()), b.cuda_built())"
    done = subprocess.run([sys.executable, "-c", questions], capture_output=True, text=True, timeout=_TIMEOUT)
    if done.returncode:
        return [("Native core", [(False, done.stderr.strip().rsplit("\n", 1)[-1])])]
    mpi, nccl, cuda = (word == "True" for word in done.stdout.split())
    return [
        ("Controllers", [(mpi, "MPI"), (True, "Gloo's place: hvdlite's own, over TCP")]),
        (
            "Tensor operations",
            [(True, "shared memory within a host, TCP between hosts"), (mpi, "MPI"), (nccl, "NCCL"), (cuda, "CUDA")],
        ),
    ]


def _own_version() -> str:
    try:
        return metadata.version("hvdlite")
    except metadata.PackageNotFoundError:
        return "(not installed)"


def _folder() -> str:
    spec = util.find_spec("hvdlite")
    return str(spec.origin) if spec else "?"
