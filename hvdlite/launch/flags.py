"""The command line of `hvdliterun`: every flag of horovodrun, with the same meaning, and a few
more. Flags of knobs come from hvdlite/base/knobs.py.

`--config-file` names a file in horovodrun's YAML layout, which sets what the same flags would set.
Flags win.

    params:        {fusion_threshold_mb: 32, cycle_time_ms: 10}
    timeline:      {filename: f.json, mark_cycles: true}
    stall_check:   {enabled: true, warning_time_seconds: 120}
    logging:       {level: INFO}
"""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from hvdlite.base import knobs
from hvdlite.launch import machine
from hvdlite.launch.elastic import options as elastic_options
from hvdlite.launch.hosts import Launcher
from hvdlite.launch.monitor import LOOPBACK

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
    elastic_options.add_flags(parser)
    _add_output(parser)
    _add_modes(parser)
    _add_knobs(parser)
    _add_without_effect(parser)
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
    for launcher, about in (
        (
            Launcher.HVDLITERUN,
            "hvdliterun itself, by ssh on other hosts (the default, except in Slurm); "
            "Horovod's name",
        ),
        (Launcher.MPI, "the first mpirun on PATH, of any MPI"),
        (Launcher.SRUN, "srun (the default in a Slurm allocation if no hosts are given)"),
        (Launcher.JSRUN, "jsrun, in LSF jobs; its command line is only printed"),
    ):
        mode.add_argument(
            f"--{launcher.value}", dest="mode", action="store_const", const=launcher, help=about
        )
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


@dataclass(frozen=True)
class IgnoredFlag:
    """A flag of horovodrun that is accepted and does nothing. A line says why."""

    flags: tuple[str, ...]
    why: str
    arguments: int = 0
    type: Callable[[str], object] = str

    @property
    def destination(self) -> str:
        return "foreign_" + self.flags[0].lstrip("-").replace("-", "_")


_AUTOTUNING = (
    "hvdlite's autotuning compares settings pairwise, without a model of them, and does not end "
    "(docs/guides/autotune.md)"
)

WITHOUT_EFFECT = (
    IgnoredFlag(("--disable-cache",), "hvdliterun remembers nothing from one run to the next"),
    IgnoredFlag(("--hierarchical-allgather", "--no-hierarchical-allgather"),
                "an allgather always uses shared memory within a host"),
    IgnoredFlag(("--autotune-bayes-opt-max-samples",), _AUTOTUNING, 1, int),
    IgnoredFlag(("--autotune-gaussian-process-noise",), _AUTOTUNING, 1, float),
    IgnoredFlag(("--num-nccl-streams",), "hvdlite orders its operations on one stream", 1, int),
    IgnoredFlag(("--gloo-timeout-seconds",),
                "--start-timeout and HVDLITE_HEARTBEAT_SECONDS set these times", 1, int),
)  # fmt: skip


def _add_without_effect(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group(
        "flags of horovodrun without effect",
        ", ".join(foreign.flags[0] for foreign in WITHOUT_EFFECT),
    )
    for foreign in WITHOUT_EFFECT:
        more: dict[str, Any] = {
            "nargs": foreign.arguments or None,
            "type": foreign.type,
            "metavar": "X",
        }
        if not foreign.arguments:
            more = {"action": "store_true"}
        elif foreign.arguments == 1:
            more["nargs"] = None
        group.add_argument(
            *foreign.flags, dest=foreign.destination, default=None, help=argparse.SUPPRESS, **more
        )


def without_effect(arguments: argparse.Namespace) -> list[IgnoredFlag]:
    """Returns which flags without effect are on the command line."""
    return [
        each for each in WITHOUT_EFFECT if getattr(arguments, each.destination, None) is not None
    ]


# Maps each key to a knob (by the name of the flag), or to a flag that has no effect here.
_KNOBS_OF_FILE = {
    tuple(knob.yaml.removeprefix("not ").split(".")): knob for knob in knobs.KNOBS if knob.yaml
}
_WITHOUT_EFFECT_OF_FILE = {
    ("params", "hierarchical_allgather"): "--hierarchical-allgather",
    ("autotune", "bayes_opt_max_samples"): "--autotune-bayes-opt-max-samples",
    ("autotune", "gaussian_process_noise"): "--autotune-gaussian-process-noise",
    ("library_options", "num_nccl_streams"): "--num-nccl-streams",
    ("library_options", "gloo_timeout_seconds"): "--gloo-timeout-seconds",
}
# Horovod's own example has this key, and Horovod does not read it.
_IGNORED_OF_FILE = {("logging", "hide_timestamp")}
_CONTROLLERS = {"gloo": Launcher.HVDLITERUN, "mpi": Launcher.MPI}


def load_config(path: str) -> dict[str, Any]:
    """Returns the file's content. Raises ValueError if it is no YAML mapping, and OSError if it
    cannot be read."""
    text = read_text(path)
    try:
        import yaml
    except ImportError:
        raise ValueError("--config-file needs PyYAML: pip install pyyaml") from None
    try:
        content = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ValueError(f"{path} is not YAML: {' '.join(str(error).split())}") from None
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise ValueError(
            f"{path}: expected sections as in `params: {{cycle_time_ms: 10}}`, found {content!r}."
        )
    return content


def apply_config(content: Mapping[str, Any], arguments: argparse.Namespace, path: str) -> None:
    """Sets the `arguments` that the file has and no flag has set. ValueError names the key and what
    is allowed."""
    known = {*_KNOBS_OF_FILE, *_WITHOUT_EFFECT_OF_FILE, *_IGNORED_OF_FILE}
    for section, values in content.items():
        if section == "controller":
            if values not in _CONTROLLERS:
                raise ValueError(
                    f"{path}: controller: {values!r} is not allowed: expected one of "
                    f"{', '.join(_CONTROLLERS)}."
                )
            arguments.mode = arguments.mode or _CONTROLLERS[values]
            continue
        keys = [key for of, key in known if of == section]
        if not keys:
            sections = sorted({of for of, _ in known} | {"controller"})
            raise ValueError(
                f"{path}: there is no section {section!r}, only {', '.join(sections)}."
            )
        if values is None:
            continue
        if not isinstance(values, dict):
            raise ValueError(
                f"{path}: {section} has to be a mapping of {', '.join(sorted(keys))}; found "
                f"{values!r}."
            )
        for key, value in values.items():
            if key not in keys:
                raise ValueError(
                    f"{path}: {section} has no key {key!r}, only {', '.join(sorted(keys))}."
                )
            _apply_key(section, key, value, arguments, path)


def _apply_key(
    section: str, key: str, value: Any, arguments: argparse.Namespace, path: str
) -> None:
    if value is None or (section, key) in _IGNORED_OF_FILE:
        return
    if (section, key) in _WITHOUT_EFFECT_OF_FILE:
        foreign = next(
            each for each in WITHOUT_EFFECT if _WITHOUT_EFFECT_OF_FILE[section, key] in each.flags
        )
        if value is not False and getattr(arguments, foreign.destination) is None:
            setattr(arguments, foreign.destination, value)
        return
    knob = _KNOBS_OF_FILE[section, key]
    source = f"{path}: {section}.{key}"
    if knob.is_switch:
        if not isinstance(value, bool):
            raise ValueError(f"{source}={value!r} is not allowed: expected true or false.")
        text = "1" if value != knob.yaml.startswith("not ") else "0"
    elif isinstance(value, (bool, list, dict)):
        raise ValueError(f"{source}={value!r} is not allowed: expected a text or a number.")
    else:
        try:
            text = knob_value(knob, source)(str(value))
        except argparse.ArgumentTypeError as error:
            message = str(error)
            raise ValueError(
                message if message.startswith(source) else f"{source}: {message}"
            ) from None
    destination = f"knob_{knob.field}"
    if getattr(arguments, destination) is None:
        setattr(arguments, destination, text)
