"""`hvdlite compat install`, `hvdlite doctor train.py` and others: the command line."""

from __future__ import annotations

import argparse
import difflib
import os
import re
import signal
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import NoReturn

from hvdlite import __version__
from hvdlite.tools.simulate import options as simulate_options

# The module whose run() is the command. It is imported then, so `--help` answers at once.
_HOMES = {
    "compat": "hvdlite.compat.installation",
    "doctor": "hvdlite.tools.doctor.examination",
    "explain": "hvdlite.tools.commands.explain",
    "leave": "hvdlite.tools.commands.leave",
    "report": "hvdlite.observe.report.cli",
    "simulate": "hvdlite.tools.simulate.cli",
    "timeline": "hvdlite.observe.timeline.cli",
    "top": "hvdlite.tools.commands.top",
}


class _Parser(argparse.ArgumentParser):
    """Suggests a similar command for an unknown one."""

    def error(self, message: str) -> NoReturn:
        message = re.sub(r", maybe you meant '[^']*'\?", "", message)  # Python's own, from 3.15 on
        said = re.search(r"invalid choice: '([^']*)' \(choose from (.*)\)", message)
        if said:
            known = re.findall(r"[\w-]+", said[2])
            for similar in difflib.get_close_matches(said[1], known, n=1):
                message += f": did you mean {similar}?"
        super().error(message)


def build_parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="hvdlite",
        description="Commands for jobs that run or have run, for programs written for Horovod, for "
        "elastic jobs and for jobs that are planned. hvdliterun starts jobs.",
        allow_abbrev=False,
    )
    parser.add_argument("-v", "--version", action="version", version=__version__)
    commands = parser.add_subparsers(
        title="commands", dest="command", required=True, metavar="COMMAND"
    )

    compat = commands.add_parser(
        "compat",
        help="make `import horovod` find hvdlite in this environment, or undo that",
        description="install: put a package horovod, which leads to hvdlite, and a command "
        "horovodrun into this environment. remove: remove these two. status: say what `import "
        "horovod` finds. The real Horovod is never changed. For a single program, `python -m "
        "hvdlite.compat train.py` does the same and installs nothing.",
    )
    compat.add_argument("action", choices=("install", "remove", "status"))
    compat.add_argument(
        "--target", metavar="DIR", help="use a folder for PYTHONPATH instead of this environment"
    )

    doctor = commands.add_parser(
        "doctor",
        help="list what differs for a program written for Horovod",
        description="Read a program that was written for Horovod, without running it. List what "
        "has to be changed, what differs, what is worth a look and what works. Several files and "
        "folders count as one program. Exit code: 0 if nothing has to be changed, 1 if something "
        "has to, 2 if a file could not be read.",
    )
    doctor.add_argument(
        "path",
        nargs="+",
        help="a Python file, a notebook, a shell script, a Dockerfile or YAML, or a folder of them",
    )
    doctor.add_argument("--json", action="store_true", help="print JSON, for other programs")
    doctor.add_argument(
        "--fix",
        action="store_true",
        help="first change imports such as `import horovod.torch` to `import hvdlite.torch` in "
        "Python files",
    )

    explain = commands.add_parser(
        "explain",
        help="say what a bundle shows that a stuck or failed job has written",
        description="Read a bundle, which the ranks of a job write if HVDLITE_STALL_DUMP names a "
        "folder and operations stall, the job fails or hvdliterun is sent SIGQUIT. Print the "
        "verdict, where each rank was, and the stacks of its main thread. Exit code: 0 if there "
        "is a bundle, 1 if there is none.",
    )
    explain.add_argument("directory", help="a bundle, or the folder of HVDLITE_STALL_DUMP: its "
                         "newest bundle")  # fmt: skip
    explain.add_argument("--stacks", action="store_true", help="print the stacks of all threads")

    leave = commands.add_parser(
        "leave",
        help="let the ranks of this host leave an elastic job",
        description="Ask the ranks of an elastic job that run on this host, as this user, to leave "
        "the job at their next boundary (state.commit() or state.step()), and wait until they have "
        "ended. The other ranks go on, and nothing is started on this host any more. This is for "
        "hooks that announce a host's end, such as Kubernetes' preStop. Exit code: 0 if the ranks "
        "have left, 1 if there is no such rank.",
    )
    which = leave.add_mutually_exclusive_group()
    which.add_argument(
        "--rank", type=int, metavar="N", help="only this rank; its slot may be filled again"
    )
    which.add_argument(
        "--slot", type=int, metavar="N", help="only the rank in this slot, the one of that GPU"
    )
    leave.add_argument(
        "--job",
        metavar="ADDRESS",
        help="which job, if several have ranks here: its HVDLITE_RENDEZVOUS, host:port",
    )
    leave.add_argument(
        "--seconds",
        type=float,
        metavar="S",
        help="kill ranks that have not left by then (default: the job's --leave-seconds)",
    )
    leave.add_argument(
        "--reason", default="hvdlite leave", metavar="TEXT", help="what the ranks are told"
    )
    leave.add_argument(
        "--no-wait", action="store_true", help="return when the job knows, not when they have ended"
    )

    report = commands.add_parser(
        "report",
        help="make a page with pictures of what a job has done",
        description="Make one page with pictures of what a job has done: its steps and waits over "
        "time, slow tensors, batches, and what to do. The page is a file of HTML that needs no "
        "network and runs no script. `hvdliterun --report FILE` makes it at the end of a job. Exit "
        "code: 0, or 1 if there is no page.",
        allow_abbrev=False,
    )
    report.add_argument(
        "files",
        nargs="+",
        type=Path,
        metavar="FILE",
        help="the file of hvdliterun --metrics-file, ranks' timelines, or both",
    )
    report.add_argument(
        "-o",
        "--output",
        type=Path,
        metavar="FILE",
        help="the page (default: the first file's name with .html)",
    )

    simulate = commands.add_parser(
        "simulate",
        help="predict the efficiency of a job with more ranks or another network",
        description=simulate_options.DESCRIPTION,
        allow_abbrev=False,
    )
    simulate_options.add(simulate)

    timeline = commands.add_parser("timeline", help="merge the timelines of all ranks into one")
    actions = timeline.add_subparsers(title="actions", required=True, metavar="ACTION")
    merge = actions.add_parser(
        "merge",
        help="one trace from those of all ranks",
        description="Merge the timelines of all ranks (HVDLITE_TIMELINE with "
        "HVDLITE_TIMELINE_RANKS=all) into one trace on one clock, which Perfetto and "
        "chrome://tracing open. Arrows lead from the rank that asked last for an operation to the "
        "ranks that waited for it. The clocks of hosts are compared by the operations that they "
        "performed together, and the error is printed.",
    )
    merge.add_argument(
        "files",
        nargs="+",
        type=Path,
        metavar="FILE",
        help="the ranks' files; of rank 0's file alone, those of the other ranks beside it are "
        "taken, too",
    )
    merge.add_argument(
        "-o", "--output", type=Path, metavar="FILE", help="default: FILE.merged.json; may be a .gz"
    )
    merge.add_argument(
        "--profile",
        action="append",
        default=[],
        type=_profile,
        metavar="RANK=PATH",
        help="add what torch.profiler (its file) or jax.profiler (its folder) has recorded on a "
        "rank; may be repeated",
    )

    top = commands.add_parser(
        "top",
        help="show what the ranks of a running job do",
        description="Show a table of the ranks of a job of this user whose hvdliterun or a rank "
        "is on this host: step time, waiting, stragglers, data, CPU and memory. Keys: s sorts by "
        "the next column, r reverses, p pauses, d asks for a bundle, q quits. The job does not "
        "notice. Exit code: 0, or 1 if there is no such job.",
    )
    top.add_argument(
        "pid", nargs="?", type=int, help="the process of hvdliterun, if several jobs run here"
    )
    top.add_argument(
        "--dump",
        action="store_true",
        help="ask all ranks for a bundle (HVDLITE_STALL_DUMP), or without a folder for their "
        "stacks in the job's output, and end",
    )
    top.add_argument("--once", action="store_true", help="print one table and end, for scripts")
    top.add_argument(
        "--json", action="store_true", help="print a line of JSON each second, or one with --once"
    )
    top.add_argument(
        "--sort",
        choices=("rank", "step", "waiting", "late", "data", "cpu", "memory"),
        default="rank",
        help="what the ranks are sorted by at first (default: rank)",
    )
    return parser


def _profile(text: str) -> tuple[int, Path]:
    rank, separator, path = text.partition("=")
    if not separator or not rank.isdecimal():
        raise argparse.ArgumentTypeError(f"'{text}' is not RANK=PATH")
    return int(rank), Path(path)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit status."""
    parser = build_parser()
    if not (sys.argv[1:] if argv is None else argv):
        parser.print_help(sys.stderr)
        return 2
    arguments = parser.parse_args(argv)
    try:
        status: int = import_module(_HOMES[arguments.command]).run(arguments)
        sys.stdout.flush()
    except BrokenPipeError:  # the reader (`| head`) has ended
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + signal.SIGPIPE
    return status


if __name__ == "__main__":
    sys.exit(main())
