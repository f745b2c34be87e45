"""The flags of elastic jobs."""

from __future__ import annotations

import argparse


def add(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group(
        "elastic training",
        "--min-np or --host-discovery-script makes a job elastic: ranks may die, leave and come.",
    )
    group.add_argument(
        "--min-np",
        "--min-num-proc",
        dest="least",
        type=_count,
        metavar="N",
        help="with fewer ranks the job waits",
    )
    group.add_argument(
        "--max-np",
        "--max-num-proc",
        dest="most",
        type=_count,
        metavar="N",
        help="the job has no more ranks",
    )
    group.add_argument(
        "--elastic-timeout",
        type=seconds,
        metavar="SECONDS",
        help="how long the job waits for --min-np ranks, or for a rank that does not come back "
        "(default: HOROVOD_ELASTIC_TIMEOUT, or 600)",
    )
    group.add_argument(
        "--reset-limit",
        type=_count,
        metavar="N",
        help="end the job when its ranks have changed more often",
    )
    group.add_argument(
        "--blacklist-cooldown-range",
        dest="cooldown",
        type=seconds,
        nargs=2,
        metavar=("MIN", "MAX"),
        help="how long a slot stays empty after a rank in it has failed, in seconds (default: from "
        "1 to 60)",
    )
    group.add_argument(
        "--failure-unit",
        choices=("slot", "host"),
        help="what a failed rank takes out of use: its slot (the default) or its host (the default "
        "of horovodrun with several hosts or a script)",
    )
    group.add_argument(
        "--leave-seconds",
        type=seconds,
        metavar="SECONDS",
        help="how long ranks that are asked to leave may take until they come to the end of a step "
        "(default: 30)",
    )
    group.add_argument(
        "--spares",
        type=_count_or_none,
        metavar="N",
        help="keep so many more processes in slots of their own, imported and ready to take the "
        "place of a rank that dies or leaves; without --max-np the job then has -np ranks "
        "(default: 0)",
    )


# By field, the flags that only an elastic job has a use for.
_ELASTIC_ONLY = {
    "most": "--max-np",
    "elastic_timeout": "--elastic-timeout",
    "reset_limit": "--reset-limit",
    "cooldown": "--blacklist-cooldown-range",
    "failure_unit": "--failure-unit",
    "leave_seconds": "--leave-seconds",
    "spares": "--spares",
}


def given(arguments: argparse.Namespace) -> list[str]:
    """The flags given that only an elastic job has a use for."""
    return [name for field, name in _ELASTIC_ONLY.items() if getattr(arguments, field) is not None]


def _count(text: str) -> int:
    """argparse's type for numbers of ranks."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not allowed: expected a whole number of at least 1"
        )
    return int(text)


def _count_or_none(text: str) -> int:
    """argparse's type for a number of processes that may be 0."""
    return 0 if text == "0" else _count(text)


def seconds(text: str) -> float:
    """argparse's type for spans of time."""
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 < seconds < 1e9:
        raise argparse.ArgumentTypeError(f"{text!r} is not allowed: expected seconds, more than 0")
    return seconds
