"""horovod.runner.launch: horovodrun's command line, which is hvdliterun's."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from typing import Any, NoReturn

from hvdlite import compat
from hvdlite.base import knobs
from hvdlite.job import built
from hvdlite.launch import cli, foreign_flags

__all__ = ["parse_args", "run_commandline", "run_controller"]


def run_commandline() -> NoReturn:
    """What `horovodrun` does: hvdliterun with Horovod's defaults, and horovod an alias in every
    rank."""
    if sys.argv[1:] in (["-v"], ["--version"]):
        print(compat.HOROVOD_VERSION)  # scripts compare it
        sys.exit(0)
    sys.exit(cli.main(["--horovodrun", *sys.argv[1:]]))


def parse_args() -> argparse.Namespace:
    """Returns the flags in sys.argv by horovodrun's names; None: not given."""
    arguments = cli.read_arguments(sys.argv[1:])
    arguments.argv = list(sys.argv[1:])
    arguments.num_proc = arguments.np = arguments.processes
    arguments.slots = arguments.slots_per_host
    arguments.prefix_output_with_timestamp = arguments.timestamps
    for mode in ("gloo", "mpi", "jsrun"):
        setattr(arguments, f"use_{mode}", arguments.mode == mode)
    for knob in knobs.KNOBS:
        if knob.flag is not None:
            setattr(
                arguments,
                _attribute(knob.flag),
                _given(knob, getattr(arguments, f"knob_{knob.field}")),
            )
    arguments.min_num_proc = arguments.min_np = arguments.least
    arguments.max_num_proc = arguments.max_np = arguments.most
    arguments.host_discovery_script = arguments.script
    arguments.cooldown_range = arguments.blacklist_cooldown_range = arguments.cooldown
    for foreign in foreign_flags.WITHOUT_EFFECT:
        flag = [each for each in foreign.flags if not each.startswith("--no-")][-1]
        setattr(arguments, _attribute(flag), getattr(arguments, foreign.destination))
    if arguments.log_without_timestamp is not None:
        arguments.log_with_timestamp = not arguments.log_without_timestamp
    names = [*arguments.interfaces, *str(arguments.network_interfaces or "").split(",")]
    arguments.nics = {name for name in names if name} or None
    arguments.run_func = arguments.executable = None
    return arguments


def _run(args: argparse.Namespace) -> None:
    """Runs what parse_args() has read. RuntimeError: the job has failed."""
    status = cli.main(["--horovodrun", *args.argv])
    if status != 0:
        raise RuntimeError(f"the job has failed: hvdliterun's exit code is {status}")


def run_controller(
    use_gloo: bool,
    gloo_run: Callable[[], Any],
    use_mpi: bool,
    mpi_run: Callable[[], Any],
    use_jsrun: bool,
    js_run: Callable[[], Any],
    verbosity: int | None,
) -> Any:
    """Calls the function that the flags ask for; gloo_run, which is hvdliterun itself, if they ask
    for none. Raises ValueError if it cannot be used here."""
    if use_mpi:
        if not built.mpi_built():
            raise ValueError(
                "MPI support has not been built: `pip install '.[mpi]'` in a clone of hvdlite, or "
                "leave --mpi out."
            )
        return mpi_run()
    if use_jsrun:
        if "LSB_JOBID" not in os.environ:
            raise ValueError(
                "Horovod did not detect an LSF job. The jsrun launcher can only be used in that "
                "environment. Please, pick a different launcher for other environments."
            )
        return js_run()
    return gloo_run()


def _attribute(flag: str) -> str:
    return flag.lstrip("-").replace("-", "_")


def _given(knob: knobs.Knob, text: str | None) -> knobs.Value | None:
    """Returns the number or the truth value that the flag was given."""
    if text is None:
        return None
    if knob.is_switch:
        return text == "1"
    value = knob.parse(text, str(knob.flag))
    return value // knob.flag_scale if isinstance(value, int) and knob.flag_scale != 1 else value
