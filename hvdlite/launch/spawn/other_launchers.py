"""The command lines of other launchers: mpirun, srun and jsrun. Pure.

mpirun starts the ranks. Tensors may go over MPI, and programs may use mpi4py themselves. So MPI
chooses its networks itself, unless --tcp restricts it.
"""

from __future__ import annotations

import enum
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from hvdlite.launch.hosts import Host
from hvdlite.launch.plan import travelling

# Variables that launchers set for each rank themselves.
_OUR_NUMBERS = re.compile(
    r"(HVDLITE|HOROVOD)_(RANK|SIZE|LOCAL_RANK|LOCAL_SIZE|CROSS_RANK|CROSS_SIZE|HOSTNAME|HOST_ID)"
)
_LAUNCHERS_VARIABLES = re.compile(
    r"(OMPI|PMIX|PRTE|OPAL|HYDRA|I_MPI|PMI|SLURM|SLURMD)_.*|MPI_LOCALRANKID|MPI_LOCALNRANKS|SHLVL"
)


@dataclass(frozen=True)
class LauncherRequest:
    """One job. `hosts` may be empty if a batch system has chosen them. `forward` names variables.
    Their values travel in the environment and never in a command line, where every user could read
    them."""

    hosts: Sequence[Host]
    processes: int
    command: Sequence[str]
    forward: Sequence[str] = ()
    interfaces: Sequence[str] = ()
    ssh_port: int | None = None
    ssh_identity_file: str | None = None
    tcp_only: bool = False
    extra_arguments: Sequence[str] = ()
    binding_arguments: Sequence[str] = ()
    as_root: bool = False

    @property
    def ssh_arguments(self) -> str:
        """Returns the arguments for ssh as one text; empty if there are none."""
        port = ["-p", str(self.ssh_port)] if self.ssh_port else []
        identity = ["-i", self.ssh_identity_file] if self.ssh_identity_file else []
        return " ".join(port + identity)

    @property
    def host_list(self) -> str:
        """Returns `a:2,b:2`, as Open MPI and Hydra read it."""
        return ",".join(f"{host.name}:{host.slots}" for host in self.hosts)


@dataclass(frozen=True)
class LauncherCommand:
    """A launcher's command line, with the variables that its environment needs."""

    argv: list[str]
    environment: Mapping[str, str] = field(default_factory=dict)


def forwardable(environment: Mapping[str, str]) -> list[str]:
    """Returns the names of variables that go to the ranks on other hosts."""
    names = travelling(without_rank(environment))
    return sorted(
        name
        for name in names
        if re.fullmatch(r"[A-Za-z_]\w*", name) and not _LAUNCHERS_VARIABLES.fullmatch(name)
    )


def without_rank(environment: Mapping[str, str]) -> dict[str, str]:
    """Returns the environment for the ranks of a job that a rank of another job starts: they must
    not take its numbers for theirs."""
    return {name: value for name, value in environment.items() if not _OUR_NUMBERS.fullmatch(name)}


# From this number of hosts on, Open MPI's tree of ssh connections takes longer than one connection
# after another from here. Horovod's value.
_MANY_HOSTS = 64

# Added to a rank's number: its shell says how the rank ended.
ENDED = 1_000_000
# Hydra lets the other ranks run on if one exits with an error, and says how ranks have ended when
# all have. So each rank has a shell that waits for it and tells at once. The shell answers signals
# for the group with nothing, because the rank gets them as well, and says nothing itself: its
# stderr is kept at descriptor 0, which is /dev/null otherwise.
_TELLING = """exec 0>&2 2>/dev/null
trap : HUP INT TERM USR1
(exec "$@" 2>&0 </dev/null)
status=$?
[ $status = 0 ] || printf '{tag}%d:%d\\n' $(({ended} + PMI_RANK)) $status >&0
exit $status"""


class MpiFamily(enum.Enum):
    OPEN_MPI = "Open MPI"
    MPICH = "MPICH"
    INTEL = "Intel MPI"


@dataclass(frozen=True)
class MpirunVersion:
    """The vendor of an mpirun. `major` is 0 if the answer has no number."""

    family: MpiFamily
    major: int

    @property
    def is_prrte(self) -> bool:
        """From version 5 on, Open MPI starts processes with PRRTE, which has other options and
        other messages."""
        return self.family is MpiFamily.OPEN_MPI and self.major >= 5


def identify_mpirun(answer: str) -> MpirunVersion:
    """Reads the output of `mpirun --version`. Raises ValueError if it is none of the known ones."""
    for family, pattern in (
        (MpiFamily.OPEN_MPI, r"\((?:Open MPI|OpenRTE|prte)\) (\d+)"),
        (MpiFamily.INTEL, r"Intel\(R\) MPI Library.*Version (\d+)"),
        (MpiFamily.MPICH, r"HYDRA build details:\s+Version:\s+(\d+)"),
    ):
        match = re.search(pattern, answer)
        if match:
            return MpirunVersion(family, int(match.group(1)))
    if "Spectrum MPI" in answer:  # IBM's MPI, built on Open MPI 4
        return MpirunVersion(MpiFamily.OPEN_MPI, 4)
    if "HYDRA" in answer:  # MVAPICH and others with MPICH's launcher
        return MpirunVersion(MpiFamily.MPICH, 0)
    said = " ".join(answer.split())[:200] or "nothing"
    raise ValueError(
        "This mpirun is neither Open MPI's nor MPICH's nor Intel MPI's: `mpirun --version` says "
        f"{said!r}. Put another one first on PATH, or name it with HVDLITE_MPIRUN."
    )


def mpirun_command(
    version: MpirunVersion, program: str, tag: str, scratch: str, request: LauncherRequest
) -> LauncherCommand:
    """Returns the command line that starts the ranks with `program`. `tag` marks their output if
    the launcher lets us choose: a text that no program prints by chance, without `%`. `scratch`: a
    directory for the launcher's own files, if it keeps any."""
    if version.family is MpiFamily.OPEN_MPI:
        return _open_mpi(version.is_prrte, program, scratch, request)
    return _hydra(version.family, program, tag, request)


def _open_mpi(prrte: bool, program: str, scratch: str, request: LauncherRequest) -> LauncherCommand:
    # The configuration of the runtime; only in version 4 is it a part of MPI's own configuration.
    runtime = "--prtemca" if prrte else "--mca"
    remote = "plm_ssh" if prrte else "plm_rsh"
    argv = [program]
    if request.as_root:
        argv.append("--allow-run-as-root")
    argv += ["--output", "tag"] if prrte else ["--tag-output"]
    argv += ["-np", str(request.processes)]
    if request.hosts:
        argv += ["-H", request.host_list]
    argv += request.binding_arguments or ["--bind-to", "none", "--map-by", "slot"]
    if request.tcp_only:
        shared = "sm" if prrte else "vader"
        argv += f"--mca pml ob1 --mca btl self,{shared},tcp".split()
    if request.ssh_arguments:
        argv += [runtime, f"{remote}_args", request.ssh_arguments]
    # PRRTE refuses the loopback, which is enough on one host
    if request.interfaces and len(request.hosts) > 1:
        names = ",".join(request.interfaces)
        argv += ["--mca", "btl_tcp_if_include", names]
        argv += [runtime, "prte_if_include" if prrte else "oob_tcp_if_include", names]
    if len(request.hosts) >= _MANY_HOSTS:
        argv += [runtime, f"{remote}_no_tree_spawn", "1"]
        argv += [runtime, f"{remote}_num_concurrent", str(len(request.hosts))]
    for name in request.forward:
        argv += ["-x", name]
    argv += [*request.extra_arguments, *request.command]
    return LauncherCommand(
        argv, {f"{'PRTE_MCA_prte' if prrte else 'OMPI_MCA_orte'}_local_tmpdir_base": scratch}
    )


def _hydra(family: MpiFamily, program: str, tag: str, request: LauncherRequest) -> LauncherCommand:
    environment: dict[str, str] = {}
    argv = [program, "-prepend-pattern", f"{tag}%r:", "-print-all-exitcodes"]
    argv += ["-np", str(request.processes)]
    if len(request.hosts) == 1:  # Intel's mpirun takes `a:2` for a name if it is alone
        argv += ["-hosts", request.hosts[0].name, "-ppn", str(request.hosts[0].slots)]
    elif request.hosts:
        argv += ["-hosts", request.host_list]
    if request.interfaces and len(request.hosts) > 1:
        argv += ["-iface", request.interfaces[0]]
    argv += request.binding_arguments
    if request.forward:
        argv += ["-genvlist", ",".join(request.forward)]
    if request.tcp_only:
        environment |= {"FI_PROVIDER": "tcp", "UCX_TLS": "tcp,self,sm"}
    if request.ssh_arguments:
        intel = family is MpiFamily.INTEL
        name = "I_MPI_HYDRA_BOOTSTRAP_EXEC_EXTRA_ARGS" if intel else "HYDRA_LAUNCHER_EXTRA_ARGS"
        environment[name] = request.ssh_arguments
    command = [*request.extra_arguments, *telling_shell(tag), *request.command]
    return LauncherCommand([*argv, *command], environment)


def telling_shell(tag: str) -> list[str]:
    """Returns the command of a shell that runs a rank under Hydra and tells how it has ended."""
    return ["sh", "-c", _TELLING.format(tag=tag, ended=ENDED), "sh"]


# srun says so of --cpu-bind=none, where that is the case anyway.
SRUN_NEEDLESS = "lacks support for cpu binding"


def srun_command(
    name: str, environ: Mapping[str, str], request: LauncherRequest
) -> LauncherCommand:
    """Returns srun's command line, for a job inside an allocation. `name`: of the step, by which it
    is found again. `environ`: srun's."""
    argv = [
        "srun",
        f"--ntasks={request.processes}",
        f"--job-name={name}",
        # Without this, the others continue when a rank has died.
        "--kill-on-bad-exit=1",
        "--label",
        "--input=none",
        # Otherwise sbatch --export=NONE would apply to the step, too.
        "--export=ALL",
    ]
    if request.hosts:
        argv += _srun_placement(request)
    # Since 22.05, srun no longer takes this from sbatch, and ranks would share one core.
    if environ.get("SLURM_CPUS_PER_TASK"):
        argv.append(f"--cpus-per-task={environ['SLURM_CPUS_PER_TASK']}")
    # A shell of `srun --pty` is a step itself: it holds the processors that this step waits for.
    if environ.get("SLURM_STEP_ID", "").isdecimal():
        argv.append("--overlap")
    return LauncherCommand([*argv, *request.extra_arguments, *request.command])


def srun_agent(host: str, command: Sequence[str]) -> list[str]:
    """Returns srun's command line for one agent that starts all ranks of its node. `command` is the
    agent's."""
    # --overlap: the step has the whole node, whatever else runs there; --unbuffered: frames have no
    # ends of lines.
    flags = (
        f"--overlap --nodes=1 --ntasks=1 --ntasks-per-node=1 --nodelist={host} --mem=0 "
        "--cpu-bind=none --job-name=hvdlite-agent --mpi=none --export=ALL --unbuffered --quiet"
    )
    return ["srun", *flags.split(), *command]


def _srun_placement(request: LauncherRequest) -> list[str]:
    counts = {host.slots for host in request.hosts}
    if len(counts) > 1:
        raise ValueError(
            f"srun cannot place {request.host_list}: it starts the same number of ranks on each "
            "host. Leave -H out: Slurm knows the hosts of this job."
        )
    names = ",".join(host.name for host in request.hosts)
    per_node = f"--ntasks-per-node={counts.pop()}"
    return [f"--nodes={len(request.hosts)}", f"--nodelist={names}", per_node]


def jsrun_command(request: LauncherRequest) -> LauncherCommand:
    """Returns jsrun's command line, for a job in IBM's LSF. It is only printed: hvdlite was never
    tried with LSF. One resource set per host has all of the host's resources, because programs
    choose their GPU by local rank."""
    hosts = max(1, len(request.hosts))
    per_host = max((host.slots for host in request.hosts), default=request.processes)
    argv = [
        "jsrun",
        f"--nrs={min(hosts, math.ceil(request.processes / per_host))}",
        f"--tasks_per_rs={min(per_host, request.processes)}",
        "--rs_per_host=1",
        "--cpu_per_rs=ALL_CPUS",
        "--gpu_per_rs=ALL_GPUS",
        "--exit_on_error=1",
    ]
    argv += request.binding_arguments or ["--bind=none"]
    return LauncherCommand([*argv, *request.extra_arguments, *request.command])
