"""`hvdlite compat install`, `hvdlite doctor train.py`: the command line."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Sequence

from hvdlite import __version__

# A command imports its module only when it runs, so `--help` answers at once.


def _compat(arguments: argparse.Namespace) -> int:
    from hvdlite.commands import compat

    return compat.run(arguments.action, arguments.target)


def _doctor(arguments: argparse.Namespace) -> int:
    from hvdlite.commands import doctor

    return doctor.run(arguments.path, arguments.json, arguments.fix)


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="hvdlite",
        description="What hvdlite can do besides running jobs, which is hvdliterun's work.",
        allow_abbrev=False,
    )
    parser.add_argument("-v", "--version", action="version", version=__version__)
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")

    compat = commands.add_parser(
        "compat",
        help="make `import horovod` mean hvdlite in this environment, or end that",
        description="install puts a package horovod, which stands for hvdlite, and a command horovodrun into this environment; "
        "remove takes exactly that away; status tells. The real Horovod is never touched. For a single program there is "
        "`python -m hvdlite.compat train.py`, which installs nothing.",
    )
    compat.add_argument("action", choices=("install", "remove", "status"))
    compat.add_argument("--target", metavar="DIR", help="a directory for PYTHONPATH instead of this environment")
    compat.set_defaults(run=_compat)

    doctor = commands.add_parser(
        "doctor",
        help="say what a program written for Horovod will find different",
        description="Reads a program that was written for Horovod, without running it, and lists what has to be changed, what differs, "
        "what is worth a look and what works. Files and folders are taken as one program. Exit code: 0 if nothing has to be changed, "
        "1 if something has to, 2 if something could not be read.",
    )
    doctor.add_argument(
        "path", nargs="+", help="a Python file, a notebook, a shell script, a Dockerfile or YAML, or a folder of them"
    )
    doctor.add_argument("--json", action="store_true", help="for machines")
    doctor.add_argument(
        "--fix",
        action="store_true",
        help="first change `import horovod.torch` to `import hvdlite.torch`, and its like, in Python files",
    )
    doctor.set_defaults(run=_doctor)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit status."""
    arguments = build_parser().parse_args(argv)
    try:
        status: int = arguments.run(arguments)
        sys.stdout.flush()
    except BrokenPipeError:  # the reader (`| head`) has ended
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + signal.SIGPIPE
    return status


if __name__ == "__main__":
    sys.exit(main())
