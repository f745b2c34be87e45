"""The options of an elastic job: its flags, and what they come to. Pure."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hvdlite.launch.hosts import Host, Launcher

TIMEOUT = "HOROVOD_ELASTIC_TIMEOUT"


@dataclass(frozen=True)
class Policy:
    """What the user has chosen: the flags of the same names."""

    processes: int  # -np
    least: int  # --min-np
    most: int | None = None  # --max-np
    spares: int = 0
    elastic_timeout: float = 600.0
    leave_seconds: float = 30.0
    reset_limit: int | None = None
    cooldown_range: tuple[float, float] | None = None
    failure_unit: str = "slot"  # or "host"
    silence_seconds: float = 10.0  # HVDLITE_HEARTBEAT_SECONDS


@dataclass(frozen=True)
class ElasticOptions:
    """`script` or `hostfile` names the hosts; without one `hosts` are all."""

    policy: Policy
    hosts: Sequence[Host]
    script: str | None = None
    hostfile: str | None = None
    slots_per_host: int = 1
    in_slurm: bool = False  # srun reaches the hosts


def understand(
    arguments: argparse.Namespace,
    hosts: Sequence[Host],
    processes: int | None,
    launcher: Launcher,
    script: str | None,
    environ: Mapping[str, str],
) -> ElasticOptions:
    """`hosts`: those that were named; none means this host. `script` names others as time goes by.
    `launcher`: what reaches them. ValueError: a sentence."""
    if launcher not in (Launcher.HVDLITERUN, Launcher.SRUN):
        raise ValueError(
            "hvdliterun itself starts the ranks of an elastic job (--gloo), and here "
            f"{launcher.value} does."
        )
    slots = sum(host.slots for host in hosts)
    count = processes or slots or arguments.least
    if not count:
        raise ValueError("-np N is required: for how many slots to wait before the job starts")
    least = arguments.least or count
    if least > count:
        raise ValueError(f"--min-np {least} is more than -np {count}.")
    if arguments.most is not None and arguments.most < count:
        raise ValueError(f"--max-np {arguments.most} is less than -np {count}.")
    if hosts and slots < count:
        raise ValueError(f"-np {count} is more than the {slots} slots of the hosts.")
    spares = arguments.spares or 0
    most = arguments.most or (count if spares else None)
    if hosts and spares and slots < count + spares:
        raise ValueError(
            f"-np {count} and --spares {spares} need {count + spares} slots; the hosts have {slots}"
        )
    low, high = arguments.cooldown or (None, None)
    if low is not None and low > high:
        raise ValueError(f"--blacklist-cooldown-range {low:g} {high:g}: MIN is more than MAX.")
    given = {
        "elastic_timeout": arguments.elastic_timeout or timeout(environ),
        "leave_seconds": arguments.leave_seconds,
        "reset_limit": arguments.reset_limit,
        "cooldown_range": arguments.cooldown and (low, high),
        "failure_unit": arguments.failure_unit or _horovods_unit(arguments, hosts, script),
        "spares": arguments.spares,
    }
    chosen = {name: value for name, value in given.items() if value is not None}
    policy = Policy(count, least, most, **chosen)
    here = [Host("localhost", (most or count) + spares)]
    return ElasticOptions(
        policy,
        hosts or here,
        script,
        hostfile=None if script or arguments.hosts else arguments.hostfile,
        slots_per_host=arguments.slots_per_host or 1,
        in_slurm=launcher is Launcher.SRUN,
    )


def timeout(environ: Mapping[str, str]) -> float | None:
    """How long the job waits below its minimum, if the environment says so."""
    text = environ.get(TIMEOUT)
    try:
        return _span(text) if text else None
    except argparse.ArgumentTypeError as error:
        raise ValueError(f"{TIMEOUT}: {error}.") from None


def _horovods_unit(
    arguments: argparse.Namespace, hosts: Sequence[Host], script: str | None
) -> str | None:
    """A job on one host would end with its first failure. Horovod refuses to start it."""
    several = len(hosts) > 1 or script is not None
    return "host" if arguments.horovodrun and several else None


def add_flags(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group(
        "elastic training",
        "--min-np or --host-discovery-script makes a job elastic: ranks may die, leave and come.",
    )
    group.add_argument(
        "--min-np",
        "--min-num-proc",
        dest="least",
        type=_count,
        metavar="N",
        help="with fewer ranks the job waits",
    )
    group.add_argument(
        "--max-np",
        "--max-num-proc",
        dest="most",
        type=_count,
        metavar="N",
        help="the job has no more ranks",
    )
    group.add_argument(
        "--elastic-timeout",
        type=_span,
        metavar="SECONDS",
        help="how long the job waits for --min-np ranks, or for a rank that does not come back "
        "(default: HOROVOD_ELASTIC_TIMEOUT, or 600)",
    )
    group.add_argument(
        "--reset-limit",
        type=_count,
        metavar="N",
        help="end the job when its ranks have changed more often",
    )
    group.add_argument(
        "--blacklist-cooldown-range",
        dest="cooldown",
        type=_span,
        nargs=2,
        metavar=("MIN", "MAX"),
        help="how long a slot stays empty after a rank in it has failed, in seconds (default: from "
        "1 to 60)",
    )
    group.add_argument(
        "--failure-unit",
        choices=("slot", "host"),
        help="what a failed rank takes out of use: its slot (the default) or its host (the default "
        "of horovodrun with several hosts or a script)",
    )
    group.add_argument(
        "--leave-seconds",
        type=_span,
        metavar="SECONDS",
        help="how long ranks that are asked to leave may take until they come to the end of a step "
        "(default: 30)",
    )
    group.add_argument(
        "--spares",
        type=_count_or_none,
        metavar="N",
        help="keep so many more processes in slots of their own, imported and ready to take the "
        "place of a rank that dies or leaves; without --max-np the job then has -np ranks "
        "(default: 0)",
    )


# By field, the flags that only an elastic job has a use for.
_ELASTIC_ONLY = {
    "most": "--max-np",
    "elastic_timeout": "--elastic-timeout",
    "reset_limit": "--reset-limit",
    "cooldown": "--blacklist-cooldown-range",
    "failure_unit": "--failure-unit",
    "leave_seconds": "--leave-seconds",
    "spares": "--spares",
}


def flags_given(arguments: argparse.Namespace) -> list[str]:
    """The flags given that only an elastic job has a use for."""
    return [name for field, name in _ELASTIC_ONLY.items() if getattr(arguments, field) is not None]


def _count(text: str) -> int:
    """argparse's type for numbers of ranks."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not allowed: expected a whole number of at least 1"
        )
    return int(text)


def _count_or_none(text: str) -> int:
    """argparse's type for a number of processes that may be 0."""
    return 0 if text == "0" else _count(text)


def _span(text: str) -> float:
    """argparse's type for spans of time."""
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 < seconds < 1e9:
        raise argparse.ArgumentTypeError(f"{text!r} is not allowed: expected seconds, more than 0")
    return seconds
