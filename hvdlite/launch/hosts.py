"""Finds the hosts and how many processes each may have: from -H, a hostfile or a batch system.
Pure.

A hostfile has a host per line, in the syntax of any launcher; `#` begins a comment:

    node1 slots=4        as for Open MPI and horovodrun
    node2:4              as for MPICH and Intel MPI
    node3                one slot, or --slots-per-host
"""

from __future__ import annotations

import enum
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from hvdlite.launch import nodelist

# A name or an address, IPv6 in brackets; ssh's `user@` may be in front.
_NAME = r"(?!-)(?:[\w.-]+@)?(?:[\w.-]+|\[[0-9a-fA-F:.%\w]+\])"
_ENTRY = re.compile(rf"({_NAME})(?::([0-9]+))?")
_LINE = re.compile(rf"({_NAME})(?::([0-9]+)|((?:\s+[\w-]+=\S+)+))?")


Reader = Callable[[str], str]


class Launcher(enum.Enum):
    """What starts the ranks. The values are the names of the flags."""

    HVDLITERUN = "gloo"  # Horovod's name for a job without MPI
    MPI = "mpi"
    SRUN = "srun"
    JSRUN = "jsrun"


@dataclass(frozen=True)
class Host:
    name: str
    slots: int


@dataclass(frozen=True)
class FoundHosts:
    """The hosts of the environment, and the source."""

    hosts: list[Host]
    source: str


def parse_hosts(text: str) -> list[Host]:
    """Parses `a:2,b:4,[fd00::1]:2`; a name alone has one slot."""
    hosts: list[Host] = []
    for entry in text.split(","):
        match = _ENTRY.fullmatch(entry.strip())
        if match is None or int(match.group(2) or 1) < 1:
            raise ValueError(
                f"Invalid host input {entry.strip()!r}: expected host:slots, separated by commas, "
                "as in localhost:4."
            )
        hosts.append(Host(match.group(1), int(match.group(2) or 1)))
    _refuse_twice(hosts, "-H")
    return hosts


def parse_hostfile(text: str, name: str, slots_per_host: int | None = None) -> list[Host]:
    """Returns the hosts of a file. Errors call it `name`."""
    hosts: list[Host] = []
    for number, line in enumerate(text.splitlines(), 1):
        content = line.split("#", 1)[0].strip()
        if content:
            hosts.append(_parse_line(content, f"{name}, line {number}", slots_per_host))
    if not hosts:
        raise ValueError(f"{name} lists no host.")
    _refuse_twice(hosts, name)
    return hosts


def _parse_line(line: str, where: str, slots_per_host: int | None) -> Host:
    match = _LINE.fullmatch(line)
    slots = slots_per_host or 1
    if match is not None and match.group(2):
        slots = int(match.group(2))
    elif match is not None and match.group(3):
        # Other words of Open MPI, such as max_slots=, do not say how many processes to start.
        given = [
            word.split("=", 1)[1] for word in match.group(3).split() if word.startswith("slots=")
        ]
        if given:
            slots = int(given[0]) if len(given) == 1 and given[0].isdecimal() else 0
    if match is None or slots < 1:
        raise ValueError(
            f"{where}: {line!r} is not a host; expected `name slots=4`, `name:4` or `name`."
        )
    return Host(match.group(1), slots)


def _refuse_twice(hosts: Iterable[Host], where: str) -> None:
    twice = [name for name, count in Counter(host.name for host in hosts).items() if count > 1]
    if twice:
        raise ValueError(
            f"Host {min(twice)!r} is listed twice in {where}: give it all its slots in one entry."
        )


def from_environment(
    environ: Mapping[str, str], read: Reader, slots_per_host: int | None = None
) -> FoundHosts | None:
    """Returns the hosts that a batch system has given to this job; `read` returns a file's text.

    Reads LSF, a Slurm allocation, and the MPI Operator of Kubernetes. In a step of Slurm, the hosts
    are in use already.
    """
    for source in (_from_lsf, _from_slurm, _from_mpi_operator):
        found = source(environ, read, slots_per_host)
        if found is not None:
            return found
    return None


def _from_lsf(
    environ: Mapping[str, str], read: Reader, slots_per_host: int | None
) -> FoundHosts | None:
    words = environ.get("LSB_MCPU_HOSTS", "").split()
    if not environ.get("LSB_JOBID") or not words:
        return None
    if len(words) % 2 or not all(count.isdecimal() and int(count) > 0 for count in words[1::2]):
        raise ValueError(
            f"LSB_MCPU_HOSTS={environ['LSB_MCPU_HOSTS']!r}: expected a count after every host."
        )
    hosts = [Host(name, int(count)) for name, count in zip(words[::2], words[1::2], strict=True)]
    return FoundHosts(hosts, "LSF (LSB_MCPU_HOSTS)")


def _from_slurm(
    environ: Mapping[str, str], read: Reader, slots_per_host: int | None
) -> FoundHosts | None:
    names = environ.get("SLURM_JOB_NODELIST")
    # An `srun` step has SLURM_STEP_ID, but so has the shell of salloc or `srun --pty`.
    if not names or not environ.get("SLURM_JOB_ID"):
        return None
    expanded = nodelist.expand(names)
    tasks = environ.get("SLURM_TASKS_PER_NODE")
    counts = nodelist.tasks_per_node(tasks) if tasks else [slots_per_host or 1] * len(expanded)
    if (
        len(counts) != len(expanded)
        and environ.get("SLURM_STEP_ID")
        and environ.get("SLURM_JOB_CPUS_PER_NODE")
    ):
        # In a shell that is a step itself, the number of tasks is the step's, but the nodes are the
        # job's.
        counts = nodelist.tasks_per_node(environ["SLURM_JOB_CPUS_PER_NODE"])
    if len(counts) != len(expanded):
        raise ValueError(
            f"SLURM_JOB_NODELIST={names} has {len(expanded)} nodes, but "
            f"SLURM_TASKS_PER_NODE={tasks} has counts for {len(counts)}."
        )
    return FoundHosts(
        [Host(name, count) for name, count in zip(expanded, counts, strict=True)],
        "Slurm (SLURM_JOB_NODELIST)",
    )


# The variables by which the operator names its hostfile: for Open MPI, its successor's runtime,
# Intel MPI and MPICH.
_OPERATORS_FILES = (
    "OMPI_MCA_orte_default_hostfile",
    "PRTE_MCA_prte_default_hostfile",
    "I_MPI_HYDRA_HOST_FILE",
    "HYDRA_HOST_FILE",
)
_OPERATORS_SLOTS = ("OMPI_MCA_orte_set_default_slots", "I_MPI_PERHOST")


_OPERATORS_SCRIPT = "/etc/mpi/discover_hosts.sh"


def discovery_script(environ: Mapping[str, str], read: Reader) -> str | None:
    """Returns the MPI Operator's script, which prints the pods of the moment."""
    if environ.get("K_MPI_JOB_ROLE") != "launcher":
        return None
    try:
        read(_OPERATORS_SCRIPT)
    except OSError:
        return None
    return _OPERATORS_SCRIPT


def _from_mpi_operator(
    environ: Mapping[str, str], read: Reader, slots_per_host: int | None
) -> FoundHosts | None:
    if environ.get("K_MPI_JOB_ROLE") != "launcher":
        return None
    path = next(
        (environ[name] for name in _OPERATORS_FILES if environ.get(name)), "/etc/mpi/hostfile"
    )
    given = next(
        (environ[name] for name in _OPERATORS_SLOTS if environ.get(name, "").isdecimal()), None
    )
    default = slots_per_host or (int(given) if given else None)
    return FoundHosts(parse_hostfile(read(path), path, default), f"the MPI Operator ({path})")
