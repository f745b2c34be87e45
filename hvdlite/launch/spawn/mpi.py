"""mpirun's command lines: Open MPI 4 and 5, MPICH, Intel MPI. Pure.

mpirun starts the ranks. Tensors may go over MPI, and programs may use mpi4py themselves. So MPI
chooses its networks itself, unless --tcp restricts it.
"""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass

from hvdlite.launch.spawn import tags
from hvdlite.launch.spawn.request import Launch, Request

# From this number of hosts on, Open MPI's tree of ssh connections takes longer than one connection
# after another from here. Horovod's value.
_MANY_HOSTS = 64

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


class Family(enum.Enum):
    OPEN_MPI = "Open MPI"
    MPICH = "MPICH"
    INTEL = "Intel MPI"


@dataclass(frozen=True)
class Version:
    """The vendor of an mpirun. `major` is 0 if the answer has no number."""

    family: Family
    major: int

    @property
    def is_prrte(self) -> bool:
        """From version 5 on, Open MPI starts processes with PRRTE, which has other options and
        other messages."""
        return self.family is Family.OPEN_MPI and self.major >= 5


def identify(answer: str) -> Version:
    """Reads the output of `mpirun --version`. Raises ValueError if it is none of the known ones."""
    for family, pattern in (
        (Family.OPEN_MPI, r"\((?:Open MPI|OpenRTE|prte)\) (\d+)"),
        (Family.INTEL, r"Intel\(R\) MPI Library.*Version (\d+)"),
        (Family.MPICH, r"HYDRA build details:\s+Version:\s+(\d+)"),
    ):
        match = re.search(pattern, answer)
        if match:
            return Version(family, int(match.group(1)))
    if "Spectrum MPI" in answer:  # IBM's MPI, built on Open MPI 4
        return Version(Family.OPEN_MPI, 4)
    if "HYDRA" in answer:  # MVAPICH and others with MPICH's launcher
        return Version(Family.MPICH, 0)
    said = " ".join(answer.split())[:200] or "nothing"
    raise ValueError(
        "This mpirun is neither Open MPI's nor MPICH's nor Intel MPI's: `mpirun --version` says "
        f"{said!r}. Put another one first on PATH, or name it with HVDLITE_MPIRUN."
    )


def launch(version: Version, program: str, tag: str, scratch: str, request: Request) -> Launch:
    """Returns the command line that starts the ranks with `program`. `tag` marks their output if
    the launcher lets us choose: a text that no program prints by chance, without `%`. `scratch`: a
    directory for the launcher's own files, if it keeps any."""
    if version.family is Family.OPEN_MPI:
        return _open_mpi(version.is_prrte, program, scratch, request)
    return _hydra(version.family, program, tag, request)


def _open_mpi(prrte: bool, program: str, scratch: str, request: Request) -> Launch:
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
        argv += [
            "--mca",
            "pml",
            "ob1",
            "--mca",
            "btl",
            "self,sm,tcp" if prrte else "self,vader,tcp",
        ]
    if request.ssh_arguments:
        argv += [runtime, f"{remote}_args", request.ssh_arguments]
    # PRRTE refuses the loopback, which is enough on one host
    if request.interfaces and len(request.hosts) > 1:
        names = ",".join(request.interfaces)
        argv += ["--mca", "btl_tcp_if_include", names]
        argv += [runtime, "prte_if_include" if prrte else "oob_tcp_if_include", names]
    if len(request.hosts) >= _MANY_HOSTS:
        argv += [
            runtime,
            f"{remote}_no_tree_spawn",
            "1",
            runtime,
            f"{remote}_num_concurrent",
            str(len(request.hosts)),
        ]
    for name in request.forward:
        argv += ["-x", name]
    argv += [*request.extra_arguments, *request.command]
    return Launch(
        argv, {f"{'PRTE_MCA_prte' if prrte else 'OMPI_MCA_orte'}_local_tmpdir_base": scratch}
    )


def _hydra(family: Family, program: str, tag: str, request: Request) -> Launch:
    environment: dict[str, str] = {}
    argv = [
        program,
        "-prepend-pattern",
        f"{tag}%r:",
        "-print-all-exitcodes",
        "-np",
        str(request.processes),
    ]
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
        intel = family is Family.INTEL
        name = "I_MPI_HYDRA_BOOTSTRAP_EXEC_EXTRA_ARGS" if intel else "HYDRA_LAUNCHER_EXTRA_ARGS"
        environment[name] = request.ssh_arguments
    command = [*request.extra_arguments, *shell(tag), *request.command]
    return Launch([*argv, *command], environment)


def shell(tag: str) -> list[str]:
    """Returns the command of a shell that runs a rank under Hydra and tells how it has ended."""
    return ["sh", "-c", _TELLING.format(tag=tag, ended=tags.ENDED), "sh"]
