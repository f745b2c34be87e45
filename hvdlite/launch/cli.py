"""`hvdliterun -np 4 python train.py`: from the command line to a job."""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from hvdlite import __version__
from hvdlite.base import knobs, variables
from hvdlite.launch import flags, machine, secret
from hvdlite.launch.elastic import options as elastic_options
from hvdlite.launch.hosts import (
    FoundHosts,
    Host,
    Launcher,
    Reader,
    discovery_script,
    from_environment,
    parse_hostfile,
    parse_hosts,
)
from hvdlite.launch.monitor import Outlets

if TYPE_CHECKING:
    from hvdlite.launch import job

# Modules that only a start needs are imported there, so `--help` answers at once.

# How other launchers are told to bind ranks.
_BINDS = {
    Launcher.MPI: '--binding-args="--bind-to core" is Open MPI\'s way',
    Launcher.SRUN: '--mpi-args="--cpu-bind=cores" is srun\'s way',
    Launcher.JSRUN: '--binding-args="--bind=packed:1" is jsrun\'s way',
}

# Flags whose value is a new file or folder, and what it may be called.
_FILES = {
    "report": ("--report", "run.html"),
    "metrics_file": ("--metrics-file", "run.jsonl"),
    "output_filename": ("--output-filename", "logs"),
    "knob_timeline": ("--timeline-filename", "timeline.json"),
}


@dataclass(frozen=True)
class JobRequest:
    """The request of the command line, checked."""

    launcher: Launcher
    hosts: list[Host]
    processes: int | None  # None: one per slot
    command: list[str]
    environment: dict[str, str]  # variables that flags set
    warnings: list[str]  # sentences for people
    hosts_from: str = ""  # for --verbose: what named the hosts, if no flag did
    elastic: elastic_options.ElasticOptions | None = None


def read_arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    """Reads flags and the config file. argparse raises SystemExit; the file raises ValueError or
    OSError."""
    parser = flags.build_parser()
    arguments = parser.parse_args(argv)
    if arguments.command[:1] == ["--"]:
        arguments.command = arguments.command[1:]
    if arguments.config_file:
        content = flags.load_config(arguments.config_file)
        flags.apply_config(content, arguments, arguments.config_file)
    return arguments


def understand(
    arguments: argparse.Namespace,
    environ: Mapping[str, str],
    read: Reader,
    look: Callable[[Mapping[str, str]], machine.Machine] = machine.here,
) -> JobRequest:
    """Decides how many ranks are started where, and by which launcher. `read` returns a file's
    text, and `look` what this host has. Raises ValueError with a sentence."""
    if not arguments.command or not arguments.command[0]:
        raise ValueError(
            "no command given: what should the processes run?  hvdliterun -np 2 python train.py"
        )
    _check_files(arguments)
    processes: int | None = None if arguments.processes == "auto" else arguments.processes
    if processes is not None and processes < 1:
        raise ValueError(f"-np {processes} is not allowed: expected at least 1 process.")
    warnings = [
        f"{each.flags[0]} has no effect: {each.why}." for each in flags.without_effect(arguments)
    ]
    found = None
    if arguments.hosts:
        hosts = parse_hosts(arguments.hosts)
    elif arguments.hostfile:
        hosts = parse_hostfile(
            read(arguments.hostfile), arguments.hostfile, arguments.slots_per_host
        )
    else:
        found = from_environment(environ, read, arguments.slots_per_host)
        hosts = found.hosts if found else []
    named, launcher = hosts, arguments.mode or _default_launcher(found)
    is_elastic = arguments.least is not None or arguments.script is not None
    # srun reaches the hosts of an elastic job, and its ranks are hvdliterun's.
    reached_by = launcher
    if is_elastic and launcher is Launcher.SRUN:
        launcher = Launcher.HVDLITERUN
    if arguments.script is None:
        hosts = _with_slots(arguments, hosts, processes, warnings, lambda: look(environ))
    by_itself = launcher is Launcher.HVDLITERUN
    if arguments.torch_env and not by_itself:
        raise ValueError(
            f"--torch-env is for ranks that hvdliterun itself starts (--gloo), but here "
            f"{launcher.value} starts them."
        )
    if arguments.bind == "core" and not by_itself:
        raise ValueError(
            f"--bind core is for ranks that hvdliterun itself starts (--gloo), but here "
            f"{launcher.value} starts them: {_BINDS[launcher]}."
        )
    hosts_from = ""
    if found is not None:
        names = ",".join(f"{host.name}:{host.slots}" for host in hosts)
        hosts_from = f"hosts from {found.source}: {names}"
    environment = _exports(arguments.exports, environ) | flags.chosen_knobs(arguments)
    if arguments.interfaces:
        knob = knobs.by_field("network_interfaces")
        before = environment.get(knob.environment[0])
        names = ",".join([*([before] if before else []), *arguments.interfaces])
        environment |= dict.fromkeys(knob.environment, names)
    if arguments.monitor or _outlets(arguments):
        for name in knobs.by_field("monitor_seconds").environment:
            environment[name] = environ.get(name) or "1"
    if _outlets(arguments).details:
        environment |= dict.fromkeys(knobs.by_field("monitor_details").environment, "1")
    if arguments.torch_env == "hvdlite":
        environment["HVDLITE_TORCH_BACKEND"] = "replace"
    if arguments.tcp:
        environment["NCCL_IB_DISABLE"] = "1"
    elastic = None
    if is_elastic:
        script = arguments.script
        if script is None and found is not None:
            script = discovery_script(environ, read)
        elastic = elastic_options.understand(
            arguments, named, processes, reached_by, script, environ
        )
    else:
        warnings += [
            f"{flag} has no effect: the job is not elastic (--min-np)."
            for flag in elastic_options.flags_given(arguments)
        ]
    warnings += variables.warnings({**environ, **environment})
    return JobRequest(
        launcher, hosts, processes, arguments.command, environment, warnings, hosts_from, elastic
    )


def _check_files(arguments: argparse.Namespace) -> None:
    """Raises ValueError if a flag for a file has taken the command's first word for it."""
    if not arguments.command[0].endswith(".py"):
        return
    for field, (flag, example) in _FILES.items():
        taken = getattr(arguments, field) or ""
        if os.path.basename(taken).startswith("python"):
            raise ValueError(
                f"{flag} has taken {taken!r} for its file: name a file before the command, as in "
                f"{flag} {example} {taken} {arguments.command[0]}"
            )


def _with_slots(
    arguments: argparse.Namespace,
    hosts: list[Host],
    processes: int | None,
    warnings: list[str],
    look: Callable[[], machine.Machine],
) -> list[Host]:
    """Returns the hosts, or this one if none was found, with as many slots as the flags say."""
    wish, flag = arguments.per_node, "--nproc-per-node"
    if wish is None and not hosts and arguments.processes == "auto":
        wish, flag = "auto", "-np"
    if isinstance(wish, str):
        count, of_what = machine.count(wish, look())
        each = "ranks" if not hosts else "ranks on each host"
        warnings.append(f"{flag} {wish}: {count} {each}, {of_what}.")
        wish = count
    if wish is None:
        if not hosts and processes is None:
            raise ValueError(
                "-np N is required: how many processes to start (-np auto: one for each GPU, or "
                "core)"
            )
        return hosts or [Host("localhost", processes or 1)]
    return [Host(host.name, wish) for host in hosts] or [Host("localhost", wish)]


def _default_launcher(found: FoundHosts | None) -> Launcher:
    """Returns what starts the ranks if no flag says so. In Slurm it is srun: nodes need not allow
    ssh, and Slurm must know the processes that it has to end."""
    in_slurm = found is not None and found.source.startswith("Slurm")
    return Launcher.SRUN if in_slurm and shutil.which("srun") else Launcher.HVDLITERUN


def _exports(given: Sequence[str], environ: Mapping[str, str]) -> dict[str, str]:
    """Reads -x NAME=VALUE. NAME alone has to exist, because a typing error would go unnoticed."""
    exports: dict[str, str] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not name.isidentifier():
            raise ValueError(f"-x {text!r} is not allowed: expected NAME or NAME=VALUE.")
        if not equals and name not in environ:
            raise ValueError(
                f"-x {name}: there is no such variable here; -x {name}=VALUE sets one."
            )
        exports[name] = value if equals else environ[name]
    return exports


def main(argv: Sequence[str] | None = None, hears: Callable[[str], object] = lambda _: None) -> int:
    """Runs the command line and returns the exit status. `hears` is called with the last line."""
    _occupy_standard_descriptors()
    try:
        return _main(argv, hears)
    except KeyboardInterrupt:  # a job handles this itself
        print("hvdliterun: ended by SIGINT.", file=sys.stderr)
        return 128 + signal.SIGINT


def _main(argv: Sequence[str] | None, hears: Callable[[str], object]) -> int:
    try:
        arguments = read_arguments(argv)
        if arguments.check_build:
            from hvdlite.launch import check_build

            return check_build.run(arguments.verbose or arguments.version)
        if arguments.version:
            print(__version__)
            return 0
        request = understand(arguments, os.environ, flags.read_text)
        # A bad knob in the environment is reported once here, instead of by every rank.
        values = knobs.resolve({**os.environ, **request.environment})
        if values["secret_file"]:
            secret.read(str(values["secret_file"]))
        environment = dict(request.environment)
        if arguments.horovod_compat or arguments.horovodrun:
            from hvdlite import compat

            environment |= compat.environment({**os.environ, **environment})
        from hvdlite.launch import plan

        slots = [] if request.elastic else plan.assign(request.hosts, request.processes)
    except (OSError, ValueError) as error:
        print(f"hvdliterun: {_said(error)}", file=sys.stderr)
        hears(_said(error))
        return 2
    notes = [request.hosts_from] if request.hosts_from and arguments.verbose else []
    for note in [*notes, *request.warnings]:
        print(f"hvdliterun: {note}", file=sys.stderr)
    sys.stderr.flush()
    chosen = replace(options(arguments, values), exits=argv is None, hears=hears)
    if request.elastic is not None:
        from hvdlite.launch.elastic import run as elastic

        return elastic.run(request.elastic, request.command, environment, chosen)
    if request.launcher is not Launcher.HVDLITERUN:
        from hvdlite.launch import delegate

        delegated = delegate.DelegateOptions(
            chosen, arguments.mpi_args or "", arguments.binding_args or "", arguments.tcp
        )
        return delegate.run(
            request.launcher, request.hosts, slots, request.command, environment, delegated
        )
    from hvdlite.launch import direct

    return direct.run(slots, request.command, environment, chosen)


def _outlets(arguments: argparse.Namespace) -> Outlets:
    return Outlets(
        arguments.metrics_port, arguments.metrics_address, arguments.metrics_file, arguments.report
    )


def options(arguments: argparse.Namespace, values: Mapping[str, knobs.Value]) -> job.JobOptions:
    """Returns the options of the job itself. `values`: the values of all knobs."""
    from hvdlite.launch import job
    from hvdlite.launch.spawn import ssh

    start_timeout = float(values["start_timeout_seconds"])
    return job.JobOptions(
        output_directory=arguments.output_filename,
        timestamps=arguments.timestamps,
        verbose=arguments.verbose,
        monitor=arguments.monitor,
        outlets=_outlets(arguments),
        collapse=arguments.collapse,
        torch_env=bool(arguments.torch_env),
        bind=arguments.bind,
        start_timeout=start_timeout,
        grace_seconds=float(values["grace_seconds"]),
        interfaces=[
            name.strip() for name in str(values["network_interfaces"]).split(",") if name.strip()
        ],
        ssh=ssh.SshOptions(
            port=arguments.ssh_port,
            identity_file=arguments.ssh_identity_file,
            extra=shlex.split(arguments.ssh_args or ""),
            connect_timeout=start_timeout,
            silence_seconds=float(values["heartbeat_seconds"]),
            hosts_may_come_late="K_MPI_JOB_ROLE" in os.environ,
        ),
    )


def _said(error: Exception) -> str:
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        return f"cannot read {error.filename}: {error.strerror}."
    return str(error)


def _occupy_standard_descriptors() -> None:
    """If stdin, stdout or stderr is closed (`2>&-`), the next pipe or socket would get its number
    and receive the output."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(descriptor, True)
    os.close(descriptor)
    # Python has no stream for a closed descriptor, and prints to stdout what is meant for stderr.
    sys.stdout = sys.stdout or open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = sys.stderr or open(2, "w", closefd=False)  # noqa: SIM115


if __name__ == "__main__":
    sys.exit(main())
