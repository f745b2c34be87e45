"""horovod.runner.launch: horovodrun's command line, which is hvdliterun's."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

from hvdlite import compat
from hvdlite.job import horovod_basics as built
from hvdlite.launch import cli

from . import _arguments

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
    arguments = _arguments.attributes(cli.read_arguments(sys.argv[1:]))
    arguments.argv = list(sys.argv[1:])
    return arguments


def _run(args: Any) -> list[Any] | None:
    """Runs what parse_args() has read, or what the attributes of a _HorovodArgs say. RuntimeError:
    the job has failed, with hvdliterun's last line. With `args.run_func` it calls that in each rank
    and returns the results."""
    func = getattr(args, "run_func", None)
    if func is not None:
        return _call(func, args)
    heard: list[str] = []
    argv = getattr(args, "argv", None)
    argv = _arguments.words(args) if argv is None else argv
    with _as_value_error():
        status = cli.main(["--horovodrun", *argv], heard.append)
    if status != 0:
        why = "".join(heard).removeprefix("hvdliterun: ") or "the job has failed."
        raise RuntimeError(f"{why} (hvdliterun's exit code: {status})")
    return None


@contextlib.contextmanager
def _as_value_error() -> Iterator[None]:
    """argparse prints what is wrong with a flag, and exits; a caller's program shall go on."""
    try:
        yield
    except SystemExit as error:
        raise ValueError("an argument is not one of horovodrun's; stderr says which.") from error


def _call(func: Callable[[], Any], args: Any) -> list[Any]:
    from hvdlite.launch.function import call, pickled

    if getattr(args, "use_mpi", None) or getattr(args, "use_jsrun", None):
        raise NotImplementedError(
            "run_func is not possible with use_mpi or use_jsrun: they start commands only. Leave "
            "them out."
        )
    with _as_value_error():
        flags = cli.read_arguments(_arguments.words(args))
    return call(pickled(func, (), None, "_run"), flags, getattr(args, "executable", None))


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
