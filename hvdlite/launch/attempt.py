"""A program that `--check-build` tries, in a process of its own: how it ended, and what it said."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

_TIMEOUT = 120.0


@dataclass(frozen=True)
class Attempt:
    lines: tuple[str, ...] = ()  # of stdout
    problem: str = ""  # empty: exit code 0. Else the last line of stderr


def attempt(arguments: Sequence[str], environment: Mapping[str, str] | None = None) -> Attempt:
    """Runs the interpreter with them."""
    try:
        done = subprocess.run(
            [sys.executable, *arguments],
            capture_output=True,
            text=True,
            timeout=_TIMEOUT,
            env=os.environ if environment is None else environment,
        )
    except subprocess.TimeoutExpired:
        return Attempt(problem=f"no answer within {_TIMEOUT:g} s")
    last = done.stderr.strip().rsplit("\n", 1)[-1].removeprefix("hvdliterun: ")
    return Attempt(tuple(done.stdout.splitlines()), (last or f"exit code {done.returncode}") if done.returncode else "")


def two_ranks(flags: Sequence[str], program: str, environment: Mapping[str, str] | None = None) -> Attempt:
    """Runs the program's text on two ranks that hvdliterun starts."""
    launch = ["-m", "hvdlite.launch", "-np", "2", *flags]
    return attempt([*launch, sys.executable, "-c", program], environment)
