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
from collections.abc import Callable, Iterable, Mapping
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


# A flag: its names, what --help says about it, and what else argparse needs to know.
Row = tuple[str, str, dict[str, Any]]
_SWITCH: dict[str, Any] = {"action": "store_true"}

_GENERAL: tuple[Row, ...] = (
    ("-v --version", "show the version and exit; with --check-build, show more", _SWITCH),
    ("-cb --check-build",
     "show what this installation can do, test each framework with two ranks, and exit", _SWITCH),
    ("-np --np --num-proc",
     "how many processes to start; auto: one per slot of the hosts, else per GPU of this host, "
     "else per core", {"dest": "processes", "type": _processes, "metavar": "N"}),
    ("--nproc-per-node --nproc_per_node",
     "how many processes on each host; gpu or cpu: one per GPU or core of this host; auto: per "
     "GPU, else per core", {"dest": "per_node", "type": _per_node, "metavar": "N"}),
    ("--torch-env --torch-distributed",
     "also set torchrun's variables (RANK, WORLD_SIZE, MASTER_ADDR ...), for programs that use "
     "torch.distributed", _SWITCH),
    ("--torch-env=hvdlite --torch-distributed=hvdlite",  # argparse looks for the whole word first
     "the same, and hvdlite carries what the program sends over torch.distributed's default "
     "group, also if it names gloo or nccl",
     {"dest": "torch_env", "action": "store_const", "const": "hvdlite"}),
    ("-x", "set a variable for all ranks, in addition to the caller's environment",
     {"dest": "exports", "action": "append", "default": [], "metavar": "NAME[=VALUE]"}),
    ("--config-file", "read options from a YAML file; flags override it", {"metavar": "FILE"}),
    ("--horovod-compat",
     "make `import horovod` find hvdlite in the ranks, so programs written for Horovod run "
     "unchanged", _SWITCH),
    # What the command horovodrun adds: Horovod's defaults where hvdliterun's are others.
    ("--horovodrun", argparse.SUPPRESS, _SWITCH),
    ("--bind",
     "core: bind each rank to its share of the host's cores; none: do not bind; auto (the "
     "default): bind if Slurm, a container or taskset has given the job only some of the cores",
     {"choices": machine.BINDINGS, "default": "auto"}),
    ("--verbose", "report what starts and what ends", _SWITCH),
)  # fmt: skip

_SOURCES_OF_HOSTS: tuple[Row, ...] = (
    ("-H --hosts",
     "hosts, and the most processes on each (default: those of the batch system, else "
     "localhost:N)", {"metavar": "HOST:SLOTS,..."}),
    ("-hostfile --hostfile",
     "hosts, one per line: `name slots=4`, `name:4` or `name`; an elastic job reads it again when "
     "it has changed", {"metavar": "FILE"}),
    ("--host-discovery-script",
     "an elastic job: run once a second, it prints the current hosts, `name` or `name:slots`",
     {"dest": "script", "metavar": "SCRIPT"}),
)  # fmt: skip
_HOSTS: tuple[Row, ...] = (
    ("--slots-per-host", "slots of a host without a number of slots (default: 1)",
     {"type": int, "metavar": "N"}),
    ("-p --ssh-port", "port of the hosts' ssh servers", {"type": int, "metavar": "PORT"}),
    ("-i --ssh-identity-file", "private key for ssh", {"metavar": "FILE"}),
    ("--ssh-args", 'more arguments for ssh, as in --ssh-args="-F config"',
     {"type": _words, "metavar": '="ARGS"'}),
    ("--network-interface",
     "network interface to use between hosts; may be repeated to use several at once (see also "
     "--network-interfaces)",
     {"dest": "interfaces", "action": "append", "default": [], "metavar": "NAME"}),
)  # fmt: skip

_OUTPUT: tuple[Row, ...] = (
    ("--output-filename",
     "also write each rank's output, without prefixes, to DIR/rank.<rank>/stdout and stderr",
     {"metavar": "DIR"}),
    ("--monitor",
     "show what each rank does: a live table on a terminal, otherwise a line every 10 seconds",
     _SWITCH),
    ("--metrics-port",
     "serve the counters of all ranks to Prometheus at http://127.0.0.1:PORT/metrics; 0: at any "
     "free port", {"type": _port, "metavar": "PORT"}),
    ("--metrics-address",
     "serve them at this address of this host instead, to all who can reach it",
     {"default": LOOPBACK, "metavar": "ADDRESS"}),
    ("--metrics-file",
     "add the counters of all ranks to FILE every 10 seconds, as a line of JSON",
     {"metavar": "FILE"}),
    ("--report",
     "write a page with pictures of the job to FILE, such as run.html: steps, waits, slow tensors, "
     "batches, what to do; each minute and at the end", {"metavar": "FILE"}),
    ("-prefix-timestamp --prefix-output-with-timestamp",
     "put the time in front of each line of output", {"dest": "timestamps", **_SWITCH}),
    ("--collapse",
     "print a line only once, as [0-3]<stdout>:, if several ranks print it at about the same time",
     _SWITCH),
)  # fmt: skip

_LAUNCHERS = {
    Launcher.HVDLITERUN: "hvdliterun itself, by ssh on other hosts (the default, except in Slurm); "
    "Horovod's name",
    Launcher.MPI: "the first mpirun on PATH, of any MPI",
    Launcher.SRUN: "srun (the default in a Slurm allocation if no hosts are given)",
    Launcher.JSRUN: "jsrun, in LSF jobs; its command line is only printed",
}
_OF_LAUNCHERS: tuple[Row, ...] = (
    ("--mpi-args", "more arguments for mpirun, srun or jsrun",
     {"type": _words, "metavar": '="ARGS"'}),
    ("--binding-args", "arguments for mpirun that replace those for binding",
     {"type": _words, "metavar": '="ARGS"'}),
    ("--tcp", "make MPI and NCCL use TCP only", _SWITCH),
)  # fmt: skip


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
    _add_rows(parser, _GENERAL)
    hosts = parser.add_argument_group("hosts")
    _add_rows(hosts.add_mutually_exclusive_group(), _SOURCES_OF_HOSTS)
    _add_rows(hosts, _HOSTS)
    elastic_options.add_flags(parser)
    _add_rows(parser.add_argument_group("output"), _OUTPUT)
    launchers = parser.add_argument_group("what starts the ranks")
    modes = launchers.add_mutually_exclusive_group()
    for launcher, about in _LAUNCHERS.items():
        modes.add_argument(
            f"--{launcher.value}", dest="mode", action="store_const", const=launcher, help=about
        )
    _add_rows(launchers, _OF_LAUNCHERS)
    _add_knobs(parser)
    _add_without_effect(parser)
    parser.add_argument("command", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    return parser


def _add_rows(group: argparse._ActionsContainer, rows: Iterable[Row]) -> None:
    for names, about, more in rows:
        group.add_argument(*names.split(), help=about, **more)


def _add_knobs(parser: argparse.ArgumentParser) -> None:
    groups: dict[str, argparse._ArgumentGroup] = {}
    for knob in knobs.KNOBS:
        if knob.flag is None:
            continue
        group = groups.get(knob.section) or parser.add_argument_group(knob.section.lower())
        groups[knob.section] = group
        more: dict[str, Any] = {"dest": f"knob_{knob.field}", "help": knob.about.replace("%", "%%")}
        if knob.is_switch:
            pair = group.add_mutually_exclusive_group()
            pair.add_argument(knob.flag, action="store_const", const="1", **more)
            if knob.flag_off:
                more["help"] = "turn this off"
                pair.add_argument(knob.flag_off, action="store_const", const="0", **more)
        else:
            metavar = "|".join(knob.choices) or knob.flag.rsplit("-", 1)[-1].upper()
            group.add_argument(knob.flag, metavar=metavar, type=knob_value(knob, knob.flag), **more)
    # Deprecated names of horovodrun.
    hide: dict[str, Any] = {"dest": "knob_log_hide_time", "action": "store_const"}
    _add_rows(
        groups[knobs.by_field("log_hide_time").section],
        [
            ("--log-hide-timestamp", argparse.SUPPRESS, {**hide, "const": "1"}),
            ("--no-log-hide-timestamp", argparse.SUPPRESS, {**hide, "const": "0"}),
        ],
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
    yaml: str = ""  # its key in --config-file
    type: Callable[[str], object] | None = None  # of its argument; None: it has none

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
                "an allgather always uses shared memory within a host",
                "params.hierarchical_allgather"),
    IgnoredFlag(("--autotune-bayes-opt-max-samples",), _AUTOTUNING,
                "autotune.bayes_opt_max_samples", int),
    IgnoredFlag(("--autotune-gaussian-process-noise",), _AUTOTUNING,
                "autotune.gaussian_process_noise", float),
    IgnoredFlag(("--num-nccl-streams",), "hvdlite orders its operations on one stream",
                "library_options.num_nccl_streams", int),
    IgnoredFlag(("--gloo-timeout-seconds",),
                "--start-timeout and HVDLITE_HEARTBEAT_SECONDS set these times",
                "library_options.gloo_timeout_seconds", int),
)  # fmt: skip


def _add_without_effect(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group(
        "flags of horovodrun without effect",
        ", ".join(foreign.flags[0] for foreign in WITHOUT_EFFECT),
    )
    for foreign in WITHOUT_EFFECT:
        more = {"type": foreign.type, "metavar": "X"} if foreign.type else _SWITCH
        own = {"dest": foreign.destination, "default": None, **more}
        _add_rows(group, [(" ".join(foreign.flags), argparse.SUPPRESS, own)])


def without_effect(arguments: argparse.Namespace) -> list[IgnoredFlag]:
    """Returns which flags without effect are on the command line."""
    return [
        each for each in WITHOUT_EFFECT if getattr(arguments, each.destination, None) is not None
    ]


_WITH_KEY: tuple[knobs.Knob | IgnoredFlag, ...] = (*knobs.KNOBS, *WITHOUT_EFFECT)
_OF_FILE = {
    tuple(each.yaml.removeprefix("not ").split(".")): each for each in _WITH_KEY if each.yaml
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
    known = {*_OF_FILE, *_IGNORED_OF_FILE}
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
    knob = _OF_FILE[section, key]
    if isinstance(knob, IgnoredFlag):
        if value is not False and getattr(arguments, knob.destination) is None:
            setattr(arguments, knob.destination, value)
        return
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
