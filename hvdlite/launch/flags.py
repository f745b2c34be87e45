"""The command line of `hvdliterun`: every flag of horovodrun, with the same meaning, and a few
more.

Flags of knobs come from hvdlite/base/knobs.py. `foreign_flags` has those without effect.
"""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Callable
from typing import NoReturn

from hvdlite.base import knobs
from hvdlite.launch import foreign_flags, machine
from hvdlite.launch.elastic import flags as elastic_flags
from hvdlite.launch.monitor.exposition import LOOPBACK

_EXAMPLES = """examples:
  hvdliterun -np 2 python train.py --epochs 3
  hvdliterun -np 8 -H node1:4,node2:4 python train.py
  hvdliterun --hostfile hosts.txt --output-filename logs --log-level info python train.py
  hvdliterun -np 2 --horovod-compat python program_that_imports_horovod.py
  hvdliterun --check-build

hvdliterun reaches other hosts by ssh, which must work without a password. In a Slurm
allocation, srun starts the ranks. When a rank fails, or on Ctrl-C, all ranks get SIGTERM and,
after --grace-seconds, SIGKILL. The exit code is that of the rank that failed first, or
128 + signal if it was killed. Every knob is also an environment variable
(docs/reference/knobs.md).
"""


# Options that people look for, where the most similar one is another.
_MEANT = {"--timeline": "--timeline-filename"}


class _Parser(argparse.ArgumentParser):
    """Suggests a similar option for an unknown one."""

    def error(self, message: str) -> NoReturn:
        what, colon, words = message.partition(": ")
        if what == "unrecognized arguments" and colon:
            import difflib

            known = [
                option
                for action in self._actions
                if action.help != argparse.SUPPRESS
                for option in action.option_strings
            ]
            typed = words.split()[0].partition("=")[0]
            similar = [_MEANT[typed]] if typed in _MEANT else []
            similar = similar or difflib.get_close_matches(typed, known, n=1)
            message += (
                f" (did you mean {similar[0]}?)"
                if similar
                else " (hvdliterun --help lists all options)"
            )
        if message.startswith("argument --torch-env/"):
            message = "--torch-distributed can name hvdlite only: --torch-distributed=hvdlite"
        super().error(message)


def build_parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="hvdliterun",
        usage="hvdliterun -np N [options] command [arguments ...]",
        description="Start N processes of a program as the ranks of one job, and watch them.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add = parser.add_argument
    add(
        "-v",
        "--version",
        action="store_true",
        help="show the version and exit; with --check-build, show more",
    )
    add(
        "-cb",
        "--check-build",
        action="store_true",
        help="show what this installation can do, test each framework with two ranks, and exit",
    )
    add(
        "-np",
        "--np",
        "--num-proc",
        dest="processes",
        type=_processes,
        metavar="N",
        help="how many processes to start; auto: one per slot of the hosts, else per GPU of this "
        "host, else per core",
    )
    add(
        "--nproc-per-node",
        "--nproc_per_node",
        dest="per_node",
        type=_per_node,
        metavar="N",
        help="how many processes on each host; gpu or cpu: one per GPU or core of this host; auto: "
        "per GPU, else per core",
    )
    add(
        "--torch-env",
        "--torch-distributed",
        action="store_true",
        help="also set torchrun's variables (RANK, WORLD_SIZE, MASTER_ADDR ...), for programs that "
        "use torch.distributed",
    )
    add(
        "--torch-env=hvdlite",  # argparse looks for the whole word first
        "--torch-distributed=hvdlite",
        dest="torch_env",
        action="store_const",
        const="hvdlite",
        help="the same, and hvdlite carries what the program sends over torch.distributed's "
        "default group, also if it names gloo or nccl",
    )
    add(
        "-x",
        dest="exports",
        action="append",
        default=[],
        metavar="NAME[=VALUE]",
        help="set a variable for all ranks, in addition to the caller's environment",
    )
    add("--config-file", metavar="FILE", help="read options from a YAML file; flags override it")
    add(
        "--horovod-compat",
        action="store_true",
        help="make `import horovod` find hvdlite in the ranks, so programs written for Horovod run "
        "unchanged",
    )
    # What the command horovodrun adds: Horovod's defaults where hvdliterun's are others.
    add("--horovodrun", action="store_true", help=argparse.SUPPRESS)
    add(
        "--bind",
        choices=machine.BINDINGS,
        default="auto",
        help="core: bind each rank to its share of the host's cores; none: do not bind; auto (the "
        "default): bind if Slurm, a container or taskset has given the job only some of the cores",
    )
    add("--verbose", action="store_true", help="report what starts and what ends")
    _add_hosts(parser)
    elastic_flags.add(parser)
    _add_output(parser)
    _add_modes(parser)
    _add_knobs(parser)
    foreign_flags.add(parser)
    add("command", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    return parser


def _add_hosts(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("hosts")
    which = group.add_mutually_exclusive_group()
    which.add_argument(
        "-H",
        "--hosts",
        metavar="HOST:SLOTS,...",
        help="hosts, and the most processes on each (default: those of the batch system, else "
        "localhost:N)",
    )
    which.add_argument(
        "-hostfile",
        "--hostfile",
        metavar="FILE",
        help="hosts, one per line: `name slots=4`, `name:4` or `name`; an elastic job reads "
        "it again when it has changed",
    )
    which.add_argument(
        "--host-discovery-script",
        dest="script",
        metavar="SCRIPT",
        help="an elastic job: run once a second, it prints the current hosts, `name` or "
        "`name:slots`",
    )
    group.add_argument(
        "--slots-per-host",
        type=int,
        metavar="N",
        help="slots of a host without a number of slots (default: 1)",
    )
    group.add_argument(
        "-p", "--ssh-port", type=int, metavar="PORT", help="port of the hosts' ssh servers"
    )
    group.add_argument("-i", "--ssh-identity-file", metavar="FILE", help="private key for ssh")
    group.add_argument(
        "--ssh-args",
        type=_words,
        metavar='="ARGS"',
        help='more arguments for ssh, as in --ssh-args="-F config"',
    )
    group.add_argument(
        "--network-interface",
        dest="interfaces",
        action="append",
        default=[],
        metavar="NAME",
        help="network interface to use between hosts; may be repeated to use several at once "
        "(see also --network-interfaces)",
    )


def _add_output(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("output")
    group.add_argument(
        "--output-filename",
        metavar="DIR",
        help="also write each rank's output, without prefixes, to DIR/rank.<rank>/stdout and "
        "stderr",
    )
    group.add_argument(
        "--monitor",
        action="store_true",
        help="show what each rank does: a live table on a terminal, otherwise a line every 10 "
        "seconds",
    )
    group.add_argument(
        "--metrics-port",
        type=_port,
        metavar="PORT",
        help="serve the counters of all ranks to Prometheus at http://127.0.0.1:PORT/metrics; 0: "
        "at any free port",
    )
    group.add_argument(
        "--metrics-address",
        default=LOOPBACK,
        metavar="ADDRESS",
        help="serve them at this address of this host instead, to all who can reach it",
    )
    group.add_argument(
        "--metrics-file",
        metavar="FILE",
        help="add the counters of all ranks to FILE every 10 seconds, as a line of JSON",
    )
    group.add_argument(
        "--report",
        metavar="FILE",
        help="write a page with pictures of the job to FILE, such as run.html: steps, waits, slow "
        "tensors, batches, what to do; each minute and at the end",
    )
    group.add_argument(
        "-prefix-timestamp",
        "--prefix-output-with-timestamp",
        dest="timestamps",
        action="store_true",
        help="put the time in front of each line of output",
    )
    group.add_argument(
        "--collapse",
        action="store_true",
        help="print a line only once, as [0-3]<stdout>:, if several ranks print it at about the "
        "same time",
    )


def _add_modes(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("what starts the ranks")
    mode = group.add_mutually_exclusive_group()
    for flag, about in (
        (
            "gloo",
            "hvdliterun itself, by ssh on other hosts (the default, except in Slurm); "
            "Horovod's name",
        ),
        ("mpi", "the first mpirun on PATH, of any MPI"),
        ("srun", "srun (the default in a Slurm allocation if no hosts are given)"),
        ("jsrun", "jsrun, in LSF jobs; its command line is only printed"),
    ):
        mode.add_argument(f"--{flag}", dest="mode", action="store_const", const=flag, help=about)
    group.add_argument(
        "--mpi-args",
        type=_words,
        metavar='="ARGS"',
        help="more arguments for mpirun, srun or jsrun",
    )
    group.add_argument(
        "--binding-args",
        type=_words,
        metavar='="ARGS"',
        help="arguments for mpirun that replace those for binding",
    )
    group.add_argument("--tcp", action="store_true", help="make MPI and NCCL use TCP only")


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
            pair.add_argument(
                knob.flag, dest=destination, action="store_const", const="1", help=about
            )
            if knob.flag_off:
                pair.add_argument(
                    knob.flag_off,
                    dest=destination,
                    action="store_const",
                    const="0",
                    help="turn this off",
                )
        else:
            word = knob.flag.rsplit("-", 1)[-1].upper()
            metavar = "|".join(knob.choices) if knob.choices else word
            convert = knob_value(knob, knob.flag)
            group.add_argument(
                knob.flag, dest=destination, metavar=metavar, type=convert, help=about
            )
    # Deprecated names of horovodrun.
    hide = next(knob for knob in knobs.KNOBS if knob.field == "log_hide_time")
    for flag, value in (("--log-hide-timestamp", "1"), ("--no-log-hide-timestamp", "0")):
        groups[hide.section].add_argument(
            flag,
            dest="knob_log_hide_time",
            action="store_const",
            const=value,
            help=argparse.SUPPRESS,
        )


def knob_value(knob: knobs.Knob, source: str) -> Callable[[str], str]:
    """Returns argparse's type for a knob: it checks a value, and returns the text for the
    environment."""

    def convert(text: str) -> str:
        if knob.flag_scale != 1:
            if not text.isdecimal():
                raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least 0")
            text = str(int(text) * knob.flag_scale)
        try:
            value = knob.parse(text, source)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None
        # As horovodrun exports it: 20 milliseconds are '20.0'.
        return text if isinstance(value, str) else str(value)

    return convert


def _processes(text: str) -> int | str:
    """argparse's type for -np."""
    if text == "auto":
        return text
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a number of processes: expected a number such as 4, or auto"
        ) from None


def _per_node(text: str) -> int | str:
    """argparse's type for --nproc-per-node."""
    if text in ("auto", "gpu", "cpu"):
        return text
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a number of processes: expected a number such as 4, auto, gpu or cpu"
        )
    return int(text)


def _port(text: str) -> int:
    if not text.isdigit() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"expected a port from 0 to 65535, got {text!r}")
    return int(text)


def _words(text: str) -> str:
    """argparse's type for several words in one text, as a shell would read them."""
    try:
        shlex.split(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r}: {error}") from None
    return text


def chosen_knobs(arguments: argparse.Namespace) -> dict[str, str]:
    """Returns the variables that the given flags set, under all names: programs may read
    Horovod's."""
    chosen: dict[str, str] = {}
    for knob in knobs.KNOBS:
        value = getattr(arguments, f"knob_{knob.field}", None)
        if value is not None:
            chosen |= dict.fromkeys(knob.environment, value)
    return chosen


def read_text(path: str) -> str:
    """Returns the text of a file that a flag names. Raises OSError, or ValueError if it is no
    text."""
    # Windows' editors begin files with a byte order mark
    with open(path, encoding="utf-8-sig") as file:
        try:
            return file.read()
        except UnicodeDecodeError as error:
            raise ValueError(f"{path} is not a text in UTF-8: {error}.") from None
