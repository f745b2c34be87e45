"""The flags of horovodrun as attributes of an object, and back."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Iterator
from typing import Any

from hvdlite.base import knobs
from hvdlite.launch import flags

_VALUES = {
    "num_proc": "--num-proc",
    "min_num_proc": "--min-np",
    "max_num_proc": "--max-np",
    "slots": "--slots-per-host",
    "hosts": "--hosts",
    "hostfile": "--hostfile",
    "host_discovery_script": "--host-discovery-script",
    "elastic_timeout": "--elastic-timeout",
    "reset_limit": "--reset-limit",
    "ssh_port": "--ssh-port",
    "ssh_identity_file": "--ssh-identity-file",
    "output_filename": "--output-filename",
    "config_file": "--config-file",
    "mpi_args": "--mpi-args",
    "binding_args": "--binding-args",
}
_SWITCHES = {
    "verbose": "--verbose",
    "prefix_output_with_timestamp": "--prefix-output-with-timestamp",
    "tcp_flag": "--tcp",
    "use_gloo": "--gloo",
    "use_mpi": "--mpi",
    "use_jsrun": "--jsrun",
}
_OLD = {"np": "num_proc", "min_np": "min_num_proc", "max_np": "max_num_proc"}
_OTHERS = """cooldown_range nics log_with_timestamp check_build command run_func
    executable""".split()


class _HorovodArgs:
    """The arguments of _run(). None: not given."""

    def __init__(self) -> None:
        more = [attribute(knob.flag) for knob in knobs.KNOBS if knob.flag is not None]
        more += [attribute(_flag(foreign)) for foreign in flags.WITHOUT_EFFECT]
        self.__dict__ |= dict.fromkeys([*_VALUES, *_SWITCHES, *_OLD, *_OTHERS, *more])


def attributes(arguments: argparse.Namespace) -> argparse.Namespace:
    """Returns what cli.read_arguments() has returned, with Horovod's names as well."""
    arguments.num_proc = arguments.np = arguments.processes
    arguments.slots = arguments.slots_per_host
    arguments.prefix_output_with_timestamp = arguments.timestamps
    arguments.tcp_flag = arguments.tcp
    for mode in ("gloo", "mpi", "jsrun"):
        setattr(arguments, f"use_{mode}", getattr(arguments.mode, "value", None) == mode)
    for knob in knobs.KNOBS:
        if knob.flag is not None:
            text = getattr(arguments, f"knob_{knob.field}")
            setattr(arguments, attribute(knob.flag), _given(knob, text))
    arguments.min_num_proc = arguments.min_np = arguments.least
    arguments.max_num_proc = arguments.max_np = arguments.most
    arguments.host_discovery_script = arguments.script
    arguments.cooldown_range = arguments.blacklist_cooldown_range = arguments.cooldown
    for foreign in flags.WITHOUT_EFFECT:
        setattr(arguments, attribute(_flag(foreign)), getattr(arguments, foreign.destination))
    if arguments.log_without_timestamp is not None:
        arguments.log_with_timestamp = not arguments.log_without_timestamp
    names = [*arguments.interfaces, *str(arguments.network_interfaces or "").split(",")]
    arguments.nics = {name for name in names if name} or None
    arguments.run_func = arguments.executable = None
    return arguments


def words(args: Any) -> list[str]:
    """Returns the command line that says what the attributes say. It ends with the command of the
    ranks, if there is one."""
    command = getattr(args, "command", None) or []
    if isinstance(command, str):
        command = shlex.split(command)
    return [*_flags(args), *(["--", *command] if command else [])]


def _flags(args: Any) -> Iterator[str]:
    def of(name: str) -> Any:
        return getattr(args, name, None)

    for old, new in _OLD.items():
        if of(new) is None and of(old) is not None:
            yield f"{_VALUES[new]}={of(old)}"
    for name, flag in _VALUES.items():
        if of(name) is not None:
            yield f"{flag}={of(name)}"
    yield from (flag for name, flag in _SWITCHES.items() if of(name))
    if of("cooldown_range") is not None:
        yield from ("--blacklist-cooldown-range", *map(str, of("cooldown_range")))
    nics = of("nics") or of("network_interfaces")
    if nics:
        yield f"--network-interfaces={nics if isinstance(nics, str) else ','.join(sorted(nics))}"
    if of("log_with_timestamp") is not None and of("log_without_timestamp") is None:
        yield "--log-with-timestamp" if of("log_with_timestamp") else "--log-without-timestamp"
    for knob in knobs.KNOBS:
        value = None if knob.flag is None else of(attribute(knob.flag))
        if value is None or knob.field == "network_interfaces":
            continue
        if not knob.is_switch:
            yield f"{knob.flag}={value}"
        elif value or knob.flag_off:
            yield str(knob.flag if value else knob.flag_off)
    for foreign in flags.WITHOUT_EFFECT:
        value = of(attribute(_flag(foreign)))
        if value is not None and value is not False:
            yield f"{_flag(foreign)}={value}" if foreign.type else _flag(foreign)


def attribute(flag: str) -> str:
    return flag.lstrip("-").replace("-", "_")


def _flag(foreign: flags.IgnoredFlag) -> str:
    return [each for each in foreign.flags if not each.startswith("--no-")][-1]


def _given(knob: knobs.Knob, text: str | None) -> knobs.Value | None:
    """Returns the number or the truth value that the flag was given."""
    if text is None:
        return None
    if knob.is_switch:
        return text == "1"
    value = knob.parse(text, str(knob.flag))
    return value // knob.flag_scale if isinstance(value, int) and knob.flag_scale != 1 else value
