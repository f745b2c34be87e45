"""`hvdliterun -np 4 python train.py`: the command line."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence

from hvdlite import knobs
from hvdlite.launch import plan

# What is needed only to start something is imported there: `--help` answers at once.

_EXAMPLES = """examples:
  hvdliterun -np 2 python train.py --epochs 3
  hvdliterun -np 4 -H localhost:4 --output-filename logs --log-level info python train.py

The exit code is that of the first rank that failed (128 + signal if it was killed). When a rank fails,
or on Ctrl-C, all ranks get SIGTERM and 5 seconds later SIGKILL. Every knob is also an environment variable
(docs/knobs.md).
"""


def _version() -> str:
    from importlib import metadata

    try:
        return metadata.version("hvdlite")
    except metadata.PackageNotFoundError:
        return "unknown (not installed)"


class _ShowVersion(argparse.Action):
    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        print(_version())
        parser.exit()


def _knob_value(knob: knobs.Knob, flag: str) -> Callable[[str], str]:
    """argparse's type for a flag: checks, and gives the text for the environment."""

    def convert(text: str) -> str:
        if knob.flag_scale != 1:
            if not text.isdecimal():
                raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least 0")
            text = str(int(text) * knob.flag_scale)
        try:
            value = knob.parse(text, flag)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None
        # As horovodrun exports it: 20 milliseconds are '20.0'.
        return text if isinstance(value, str) else str(value)

    return convert


def _add_knobs(parser: argparse.ArgumentParser) -> None:
    groups: dict[str, argparse._ArgumentGroup] = {}
    for knob in knobs.KNOBS:
        if knob.flag is None:
            continue
        group = groups.get(knob.section) or parser.add_argument_group(knob.section.lower())
        groups[knob.section] = group
        about = knob.about.replace("%", "%%")
        destination = f"knob_{knob.field}"
        if knob.is_switch:
            pair = group.add_mutually_exclusive_group()
            pair.add_argument(knob.flag, dest=destination, action="store_const", const="1", help=about)
            if knob.flag_off:
                pair.add_argument(knob.flag_off, dest=destination, action="store_const", const="0", help="the opposite")
        else:
            word = knob.flag.rsplit("-", 1)[-1].upper()
            metavar = "|".join(knob.choices) if knob.choices else word
            convert = _knob_value(knob, knob.flag)
            group.add_argument(knob.flag, dest=destination, metavar=metavar, type=convert, help=about)


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="hvdliterun",
        usage="hvdliterun -np N [options] command [arguments ...]",
        description="Start N processes of a program as the ranks of one job and watch over them.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("-v", "--version", action=_ShowVersion, nargs=0, help="show the version and exit")
    add("-np", "--num-proc", dest="processes", type=int, metavar="N", help="how many processes to start")
    add("-H", "--hosts", metavar="HOST:SLOTS", help="where; only this machine for now (default: localhost:N)")
    add("--verbose", action="store_true", help="say what is started and what ends")
    add(
        "--output-filename",
        metavar="DIR",
        help="write each rank's output to DIR/rank.<rank>/stdout and stderr as well, without prefixes",
    )
    add(
        "-prefix-timestamp",
        "--prefix-output-with-timestamp",
        dest="timestamps",
        action="store_true",
        help="put the time before each line of output",
    )
    _add_knobs(parser)
    add("command", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    return parser


def names_of_this_host() -> set[str]:
    """What `-H` may call this machine."""
    import socket

    name = socket.gethostname()
    return {"localhost", "127.0.0.1", name, name.split(".")[0]}


def chosen_knobs(arguments: argparse.Namespace) -> dict[str, str]:
    """The variables that the given flags set, under all names: programs may read Horovod's."""
    chosen: dict[str, str] = {}
    for knob in knobs.KNOBS:
        value = getattr(arguments, f"knob_{knob.field}", None)
        if value is not None:
            chosen |= dict.fromkeys(knob.environment, value)
    return chosen


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit status."""
    parser = build_parser()
    arguments = parser.parse_args(argv)
    command: list[str] = arguments.command
    if command[:1] == ["--"]:
        command = command[1:]
    if not command:
        parser.error("no command given: what should the processes run?  hvdliterun -np 2 python train.py")
    if arguments.processes is None and arguments.hosts is None:
        parser.error("-np N is required: how many processes to start")
    try:
        hosts = plan.parse_hosts(arguments.hosts or f"localhost:{max(1, arguments.processes)}")
        plan.require_local(hosts, names_of_this_host())
        slots = plan.assign(hosts, arguments.processes)
        chosen = chosen_knobs(arguments)
        # A bad knob in the environment is reported once, here, instead of by every rank.
        knobs.resolve({**os.environ, **chosen})
    except ValueError as error:
        print(f"hvdliterun: {error}", file=sys.stderr)
        return 2
    from hvdlite.launch import job

    options = job.Options(arguments.output_filename, arguments.timestamps, arguments.verbose)
    return job.run(slots, command, chosen, options)


if __name__ == "__main__":
    sys.exit(main())
