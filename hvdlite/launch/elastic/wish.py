"""What the command line asks of an elastic job. Pure."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hvdlite.launch.elastic import flags
from hvdlite.launch.elastic.crew import Policy
from hvdlite.launch.hosts import Host
from hvdlite.launch.spawn.other_launchers import Launcher

TIMEOUT = "HOROVOD_ELASTIC_TIMEOUT"


@dataclass(frozen=True)
class Wish:
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
) -> Wish:
    """`hosts`: those that were named; none means this host. `script` names others as time goes by.
    `launcher`: what reaches them. ValueError: a sentence."""
    if launcher not in (Launcher.HVDLITERUN, Launcher.SRUN):
        raise ValueError(
            f"hvdliterun itself starts the ranks of an elastic job (--gloo), and here "
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
    return Wish(
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
        return flags.seconds(text) if text else None
    except argparse.ArgumentTypeError as error:
        raise ValueError(f"{TIMEOUT}: {error}.") from None


def _horovods_unit(
    arguments: argparse.Namespace, hosts: Sequence[Host], script: str | None
) -> str | None:
    """A job on one host would end with its first failure. Horovod refuses to start it."""
    several = len(hosts) > 1 or script is not None
    return "host" if arguments.horovodrun and several else None
