"""A job that another launcher starts (`--mpi`, `--srun`, `--jsrun`), from its command line to its
last line.

    status = delegate.run(Launcher.MPI, hosts, plan.assign(hosts), command, knobs,
                          DelegateOptions(JobOptions(...)))

Ranks get their numbers from that launcher and meet at the store of this one. HVDLITE_RENDEZVOUS and
HVDLITE_SECRET are in their environment, but no HVDLITE_RANK. If the user has a HVDLITE_SECRET_FILE,
it takes the place of HVDLITE_SECRET.
"""

from __future__ import annotations

import os
import secrets
import shlex
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from functools import partial

from hvdlite.launch import direct, output, plan, secret
from hvdlite.launch.hosts import Host, Launcher, from_environment
from hvdlite.launch.job import Job, JobOptions, NotRun, of_the_command_line
from hvdlite.launch.last_words import shown
from hvdlite.launch.spawn import delegated, launcher_output, local
from hvdlite.launch.spawn.delegated import DelegatedLauncher, DelegatedRanks
from hvdlite.launch.spawn.launcher_output import LAUNCHER
from hvdlite.launch.spawn.other_launchers import (
    LauncherRequest,
    MpiFamily,
    MpirunVersion,
    forwardable,
    identify_mpirun,
    jsrun_command,
    mpirun_command,
    srun_command,
    without_rank,
)
from hvdlite.launch.verdict import Verdict
from hvdlite.rendezvous import addresses
from hvdlite.rendezvous.addresses import join_address

# Names the mpirun to use; the default is the first on PATH.
PROGRAM = "HVDLITE_MPIRUN"
_ASKING_SECONDS = 20.0
_MERCY_SECONDS = 3.0


@dataclass(frozen=True)
class DelegateOptions:
    """`arguments` and `binding` are those of horovodrun's command line (--mpi-args,
    --binding-args): several words in one text. srun and jsrun get them, too."""

    job: JobOptions
    arguments: str = ""
    binding: str = ""
    tcp: bool = False


class LaunchersVerdict(Verdict):
    """Decides as well if the launcher failed without naming a rank: by its own status and the
    ranks' output."""

    group: DelegatedRanks | None = None
    streams: Mapping[tuple[int, str], output.Stream] = {}

    def status(self) -> int:
        if self._is_unexplained():
            return self.group.status if self.group else 1
        return super().status()

    def sentence(self, command: Sequence[str]) -> str:
        if self.lost is None or not self._is_unexplained():
            return super().sentence(command)
        sentence = f"hvdliterun: {self.lost[1]}. All ranks have ended."
        for (rank, name), stream in self.streams.items():
            words, names_an_error = stream.last_words.found()
            if name == "stderr" and rank != LAUNCHER and names_an_error:
                return f"{sentence} The last words of rank {rank}: {shown(words)}"
        return sentence

    def _is_unexplained(self) -> bool:
        return self.lost is not None and not self.interrupted and not self.failures


class _LaunchersStream(output.Stream):
    """The output of the launcher itself. It has no prefix, because it has no rank."""

    @property
    def prefix(self) -> bytes:
        return b""


def run(
    launcher: Launcher,
    hosts: Sequence[Host],
    slots: Sequence[plan.Slot],
    command: Sequence[str],
    knobs: Mapping[str, str],
    options: DelegateOptions,
) -> int:
    """Runs the job to its end and returns the exit status. Main thread only.

    `slots`: the ranks as hvdliterun would place them on `hosts`. The launcher may place them
    differently. `knobs`: variables that flags set.
    """
    verdict = LaunchersVerdict({slot.rank: slot.host for slot in slots})
    names = [host.name for host in hosts]
    job = of_the_command_line(names, slots, command, knobs, options.job, verdict)
    with job.concluded() as end:
        _supervise(job, launcher, hosts, options, verdict)
    return end.status


def _supervise(
    job: Job,
    by: Launcher,
    hosts: Sequence[Host],
    options: DelegateOptions,
    verdict: LaunchersVerdict,
) -> None:
    if by is Launcher.JSRUN:
        raise NotRun(_jsrun(_request(by, hosts, len(job.slots), job.command, {}, options)))
    here = not job.far
    with job.opened() as opened, ExitStack() as stack:
        environment = without_rank(plan.job_environment(os.environ, job.knobs))
        if by is Launcher.SRUN:
            environment = plan.without_mpi(environment)
        # srun gives each rank its own cores, unless it was told not to.
        if here and by is Launcher.MPI:
            environment |= direct.share_cores(job, environment, len(job.slots))
        environment |= _rendezvous(opened.store.address[1], here, options.job.interfaces)
        # A descriptor would not survive the other launcher, and cannot reach another host.
        if environment.get(secret.FILE_VARIABLE):
            environment[secret.FILE_VARIABLE] = os.path.abspath(environment[secret.FILE_VARIABLE])
        else:
            environment[secret.TEXT_VARIABLE] = opened.key.hex()
        asked = _request(by, hosts, len(job.slots), job.command, environment, options)
        scratch = tempfile.mkdtemp(prefix="hvdlite-")
        # The guardian removes the directory, too, if this process is killed.
        stack.callback(shutil.rmtree, scratch, ignore_errors=True)
        launcher = _mpi(asked, here, scratch) if by is Launcher.MPI else _srun(asked, environment)
        job.log(f"runs {shlex.join(launcher.launch.argv)}")
        signals = stack.enter_context(closing(job.signals()))
        process = local.start(
            launcher.launch.argv,
            {**environment, **launcher.launch.environment},
            {0: {}},
            grace_seconds=options.job.grace_seconds,
            scratch=scratch,
            # srun answers SIGTERM with SIGKILL for all ranks. Without that, Slurm gives them its
            # KillWait, 30 s.
            mercy_seconds=_MERCY_SECONDS if by is Launcher.SRUN else 0.0,
        )
        group = DelegatedRanks(launcher, process, options.job.grace_seconds)
        stack.callback(group.close)
        verdict.group = group
        own = _LaunchersStream(LAUNCHER, "stderr", job.console.stderr)
        verdict.streams = {**opened.streams, (LAUNCHER, "stderr"): own}
        job.watch({launcher.name: group}, verdict.streams, signals)
        verdict.hosts = {**verdict.hosts, **group.hosts}


def _mpi(asked: LauncherRequest, here: bool, scratch: str) -> DelegatedLauncher:
    program = find_mpirun()
    version = ask_version(program)
    mark = f"<{secrets.token_hex(8)}>"
    launch = mpirun_command(version, program, mark, scratch, asked)
    # SIGUSR2 kills MPICH's mpirun. Intel's is a shell script, and every signal kills it.
    passed_on = {
        MpiFamily.OPEN_MPI: (signal.SIGUSR1, signal.SIGUSR2),
        MpiFamily.MPICH: (signal.SIGUSR1,),
        MpiFamily.INTEL: (),
    }[version.family]
    # Only mpirun reaches the ranks on other hosts.
    far = delegated.ByItself if version.family is MpiFamily.MPICH else delegated.SignalPolicy
    policy = (delegated.AroundIt if here else far)(*passed_on)
    if version.family is MpiFamily.OPEN_MPI:
        tag = partial(launcher_output.open_mpi_tag, prrte=version.is_prrte)
        causes = launcher_output.open_mpi_causes
        return DelegatedLauncher("mpirun", launch, tag, causes, policy)
    hydra = launcher_output.hydra_tag(mark)
    causes = partial(launcher_output.hydra_causes, family=version.family)
    return DelegatedLauncher("mpirun", launch, lambda stream: hydra, causes, policy)


def _srun(asked: LauncherRequest, environment: Mapping[str, str]) -> DelegatedLauncher:
    name = f"hvdlite-{secrets.token_hex(4)}"
    policy = delegated.ThroughSlurm(name, signal.SIGUSR1, signal.SIGUSR2)
    launch, tag = srun_command(name, environment, asked), launcher_output.SRUN_TAG
    return DelegatedLauncher(
        "srun", launch, lambda stream: tag, launcher_output.srun_causes, policy
    )


def find_mpirun() -> str:
    """Returns the mpirun to use. Raises ValueError if there is none."""
    chosen = os.environ.get(PROGRAM)
    found = shutil.which(chosen or "mpirun")
    if found:
        return found
    where = f"{PROGRAM}={chosen} is not a program." if chosen else "There is no mpirun on PATH."
    raise ValueError(
        f"{where} --mpi needs Open MPI, MPICH or Intel MPI; without --mpi hvdliterun starts ranks "
        "itself."
    )


def ask_version(program: str) -> MpirunVersion:
    """Returns the vendor and version of that mpirun. Raises ValueError if it is unknown, and
    SubprocessError if it does not answer."""
    done = subprocess.run(
        [program, "--version"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=_ASKING_SECONDS,
    )
    return identify_mpirun(done.stdout + done.stderr)


def _request(
    launcher: Launcher,
    hosts: Sequence[Host],
    processes: int,
    command: Sequence[str],
    environment: Mapping[str, str],
    options: DelegateOptions,
) -> LauncherRequest:
    given = hosts
    if launcher is Launcher.SRUN:
        allocation = from_environment(os.environ, lambda path: "")
        # Slurm knows its own allocation, even if nodes have different numbers of tasks.
        given = () if allocation is not None and list(hosts) == allocation.hosts else hosts
    return LauncherRequest(
        hosts=given,
        processes=processes,
        command=command,
        forward=forwardable(environment),
        interfaces=options.job.interfaces,
        ssh_port=options.job.ssh.port,
        ssh_identity_file=options.job.ssh.identity_file,
        tcp_only=options.tcp,
        extra_arguments=shlex.split(options.arguments),
        binding_arguments=shlex.split(options.binding),
        as_root=os.geteuid() == 0,
    )


def _jsrun(asked: LauncherRequest) -> str:
    return (
        "--jsrun shows its command line and does not run it, because hvdlite was never tried "
        "with IBM's LSF. In an LSF job, try\n"
        f"    {shlex.join(jsrun_command(asked).argv)}\n"
        "or leave --jsrun out: hvdliterun finds the hosts of an LSF job and starts the ranks "
        "by ssh."
    )


def _rendezvous(port: int, here: bool, interfaces: Sequence[str]) -> dict[str, str]:
    """Returns where the store is. It is not known which of this machine's addresses other hosts can
    reach, so ranks try them all."""
    names = ["127.0.0.1"] if here else addresses.of_this_machine(interfaces) or ["127.0.0.1"]
    return {
        **plan.rendezvous_environment((names[0], port)),
        "HVDLITE_RENDEZVOUS": ",".join(join_address(name, port) for name in names),
    }
