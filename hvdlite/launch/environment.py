"""Which rank is this process? Read from the environment that a launcher has set; pure but for the secret.

For now only our own variables are understood. Where another launcher has clearly started several processes
the answer is an error: N processes that each believe they are alone would train N models and say nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from hvdlite.launch import secret as job_secret

ALLOW_SINGLETON = "HVDLITE_ALLOW_SINGLETON"
_NUMBERS = ("RANK", "SIZE", "LOCAL_RANK", "LOCAL_SIZE", "CROSS_RANK", "CROSS_SIZE")
_RENDEZVOUS = "HVDLITE_RENDEZVOUS"


@dataclass(frozen=True)
class Identity:
    """This process' place in the job. `rendezvous` and `secret` are None when it is alone."""

    rank: int = 0
    size: int = 1
    local_rank: int = 0
    local_size: int = 1
    cross_rank: int = 0
    cross_size: int = 1
    rendezvous: tuple[str, int] | None = None
    secret: bytes | None = field(default=None, repr=False)


SecretReader = Callable[[Mapping[str, str]], bytes | None]


def discover(environ: Mapping[str, str], read_secret: SecretReader = job_secret.from_environment) -> Identity:
    """The identity that `environ` gives this process.

    ValueError: our variables are incomplete or contradict one another. RuntimeError: another launcher has
    started several processes, which would each believe they are alone.
    """
    identity = _own(environ, read_secret)
    if identity is None or identity.size == 1:
        _refuse_to_be_alone(environ, identity)
    return identity or Identity()


def parse_address(text: str, source: str) -> tuple[str, int]:
    """`host:port` or `[v6]:port`."""
    host, colon, port = text.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        colon = ""
    if not colon or not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise ValueError(f"{source}={text!r} is not allowed: expected host:port.")
    return host, int(port)


def _own(environ: Mapping[str, str], read_secret: SecretReader) -> Identity | None:
    names = [f"HVDLITE_{name}" for name in _NUMBERS]
    given = [name for name in (*names, _RENDEZVOUS) if environ.get(name)]
    if not given:
        return None
    missing = [name for name in names if name not in given]
    if missing:
        raise ValueError(
            f"{', '.join(given)} set, but {', '.join(missing)} not: a process needs all of them or none. "
            "hvdliterun sets them; unset them to run a single process."
        )
    rank, size, local_rank, local_size, cross_rank, cross_size = (_number(environ, name) for name in names)
    for low, high, names_of in (
        (rank, size, ""),
        (local_rank, local_size, "LOCAL_"),
        (cross_rank, cross_size, "CROSS_"),
    ):
        if low >= high:
            raise ValueError(f"HVDLITE_{names_of}RANK={low} has to be below HVDLITE_{names_of}SIZE={high}.")
    if local_size > size or cross_size > size:
        raise ValueError(
            f"HVDLITE_LOCAL_SIZE={local_size} and HVDLITE_CROSS_SIZE={cross_size} exceed HVDLITE_SIZE={size}."
        )
    numbers = (rank, size, local_rank, local_size, cross_rank, cross_size)
    if not environ.get(_RENDEZVOUS):
        if size == 1:
            return Identity(*numbers)
        raise ValueError(f"HVDLITE_SIZE={size}, but {_RENDEZVOUS}=host:port is not set: ranks could not meet.")
    address = parse_address(environ[_RENDEZVOUS], _RENDEZVOUS)
    secret = read_secret(environ)
    if secret is None:
        raise ValueError(
            f"{_RENDEZVOUS} is set, but neither {job_secret.DESCRIPTOR_VARIABLE} nor "
            f"{job_secret.TEXT_VARIABLE}: without the job's secret no other rank would talk to this one."
        )
    return Identity(*numbers, rendezvous=address, secret=secret)


def _number(environ: Mapping[str, str], name: str) -> int:
    text = environ[name].strip()
    if not text.isdecimal():
        raise ValueError(f"{name}={environ[name]!r} is not allowed: expected a whole number of at least 0.")
    return int(text)


# --- other launchers


@dataclass(frozen=True)
class _Foreign:
    launcher: str
    needs: tuple[str, ...]  # only when these are set as well is this process one of the ranks
    size: str


# Highest first. A Slurm batch script has SLURM_PROCID and SLURM_NTASKS without being a rank, but no
# SLURM_STEP_ID; PMIx gives no size at all.
_FOREIGN = (
    _Foreign("horovodrun", ("HOROVOD_RANK",), "HOROVOD_SIZE"),
    _Foreign("torchrun", ("RANK", "MASTER_ADDR"), "WORLD_SIZE"),
    _Foreign("Open MPI's mpirun", ("OMPI_COMM_WORLD_RANK",), "OMPI_COMM_WORLD_SIZE"),
    _Foreign("MVAPICH's mpirun", ("MV2_COMM_WORLD_RANK",), "MV2_COMM_WORLD_SIZE"),
    _Foreign("mpiexec", ("PMI_RANK",), "PMI_SIZE"),
    _Foreign("srun", ("SLURM_STEP_ID", "SLURM_PROCID"), "SLURM_STEP_NUM_TASKS"),
)


def _foreign_size(environ: Mapping[str, str]) -> tuple[_Foreign, int] | None:
    for foreign in _FOREIGN:
        text = environ.get(foreign.size, "")
        if all(environ.get(name) for name in foreign.needs) and text.isdecimal() and int(text) > 1:
            return foreign, int(text)
    return None


def _refuse_to_be_alone(environ: Mapping[str, str], identity: Identity | None) -> None:
    if environ.get(ALLOW_SINGLETON, "").strip().lower() not in ("", "0", "false", "no", "off"):
        return
    found = _foreign_size(environ)
    if found is None:
        return
    foreign, size = found
    ours = "nothing set by hvdliterun" if identity is None else "HVDLITE_SIZE=1"
    raise RuntimeError(
        f"{foreign.launcher} has started {size} processes ({foreign.size}={size}), but there is {ours}: "
        "each of them would train alone. Start them with `hvdliterun -np N`; or, if this process is meant "
        f"to be alone (it only inherited these variables), set {ALLOW_SINGLETON}=1."
    )
