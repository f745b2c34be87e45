"""`hvdliterun --check-build`: what this installation can do, and the proof: two ranks that add with each framework."""

from __future__ import annotations

import platform
import sys
import time
from dataclasses import dataclass
from importlib import metadata, util

from hvdlite import __version__
from hvdlite.launch import explain
from hvdlite.launch.attempt import attempt, two_ranks

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
    print(f"hvdlite {__version__}, Python {platform.python_version()}, {platform.machine()}\n", flush=True)
    print("Frameworks (two ranks add with each that is installed):", flush=True)
    well = True
    for framework in FRAMEWORKS:
        version = framework.version()
        if version is None:
            print(f"    [ ] {framework.title}", flush=True)
            continue
        began = time.monotonic()
        problem = two_ranks(["-H", "localhost:2", "--gloo"], framework.program()).problem
        well = well and not problem
        mark, said = ("!", f"FAILED: {problem}") if problem else ("X", f"works ({time.monotonic() - began:.1f} s)")
        print(f"    [{mark}] {framework.title} {version}: {said}", flush=True)
    for title, rows in _facts():
        print(f"\n{title}:")
        for there, text in rows:
            print(f"    [{'X' if there else ' '}] {text}")
    if verbose:
        for title, found in (("The way of tensors between two ranks", explain.ways()), ("MPI", explain.mpi())):
            print(f"\n{title}:", flush=True)
            for there, text in found:
                print(f"    [{'X' if there else ' '}] {text}", flush=True)
        print(f"\nInterpreter: {sys.executable}\nInstalled in: {_folder()}")
    return 0 if well else 1


def _facts() -> list[tuple[str, list[tuple[bool, str]]]]:
    """What the native core says of itself, asked in another process: it may not even load."""
    asked = attempt(["-c", "from hvdlite.job import built; print(built.mpi_built())"])
    if asked.problem:
        return [("Native core", [(False, asked.problem)])]
    mpi = asked.lines[0] == "True"
    return [
        (
            "Controllers",
            [
                (mpi, f"MPI: mpi4py finds {'a' if mpi else 'no'} library"),
                (True, "Gloo's place: hvdlite's own, over TCP"),
            ],
        ),
        (
            "Tensor operations",
            [(True, "shared memory within a host, TCP between hosts"), (mpi, "MPI between hosts")],
        ),
        ("Tensors on a GPU", list(explain.gpu())),
    ]


def _folder() -> str:
    spec = util.find_spec("hvdlite")
    return str(spec.origin) if spec else "?"
