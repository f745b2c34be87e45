"""One suite that runs: its process, in /dev/shm and System V IPC of its own where that is allowed,
and what it has reported."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from suites.reporting import VARIABLE
from suites.table import ROOT, Suite, files_of

_LIBC = ctypes.CDLL(None)
_MOUNTED = 'mount -t tmpfs -o size=50% tmpfs /dev/shm && exec "$@"'
_APART = ("unshare", "--mount", "--propagation", "private", "--ipc", "sh", "-c", _MOUNTED, "sh")


def apart() -> tuple[str, ...]:
    """What a command is preceded by to have a /dev/shm of its own; empty: that is not allowed
    here."""
    if os.geteuid() != 0 or not shutil.which("unshare"):
        return ()
    return _APART if subprocess.run([*_APART, "true"], capture_output=True).returncode == 0 else ()


@dataclass(frozen=True)
class Failure:
    test: str
    text: str
    can_be_repeated: bool  # by its name


@dataclass
class Counts:
    outcomes: Counter[str] = field(default_factory=Counter)
    skipped: Counter[str] = field(default_factory=Counter)  # why
    costs: list[tuple[float, float, str]] = field(default_factory=list)  # CPU s, s, test


def _end_with_parent() -> None:
    _LIBC.prctl(1, signal.SIGTERM)
    signal.signal(signal.SIGINT, signal.default_int_handler)


class SuiteRun:
    """Starts at once. `poll` is called now and then, and gives the failures that are new."""

    def __init__(
        self, suite: Suite, folder: Path, prefix: Sequence[str], tests: Sequence[str] = ()
    ) -> None:
        """`tests`: these instead of all."""
        self.suite = suite
        self.counts = Counts()
        self.code: int | None = None
        self.cpu_seconds = 0.0
        self._begun = time.monotonic()
        self._ended = 0.0
        label = re.sub(r"\W+", "-", suite.name) + ("-again" if tests else "")
        self.output = folder / f"{label}.log"
        self._report = folder / f"{label}.jsonl"
        self._report.unlink(missing_ok=True)
        self._read = 0
        self._failed: set[str] = set()
        environment = os.environ | {VARIABLE: str(self._report)}
        with self.output.open("wb") as output:
            self._process = subprocess.Popen(
                [*prefix, *self._command(tests)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=ROOT,
                env=environment,
                start_new_session=True,
                preexec_fn=_end_with_parent,
            )

    def _command(self, tests: Sequence[str]) -> list[str]:
        if self.suite.command:
            gtests = ["--gtest_filter=" + ":".join(tests)] if tests else []
            return [*self.suite.command, *gtests]
        pytest = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--tb=short"]
        return [*pytest, *(tests or files_of(self.suite))]

    @property
    def seconds(self) -> float:
        return (self._ended or time.monotonic()) - self._begun

    @property
    def passed(self) -> bool:
        return self.code == 0 and not self._failed

    @property
    def ran_a_test(self) -> bool:
        """A command is one test."""
        outcomes = self.counts.outcomes
        return bool(self.suite.command or outcomes["passed"] or outcomes["failed"])

    def poll(self) -> list[Failure]:
        if self.code is None:
            pid, status, usage = os.wait4(self._process.pid, os.WNOHANG)
            if pid:
                self.code = self._process.returncode = os.waitstatus_to_exitcode(status)
                self.cpu_seconds = usage.ru_utime + usage.ru_stime
                self._ended = time.monotonic()
            elif self.seconds > self.suite.limit:
                self.end()
                return self._collect() + [
                    Failure(self.suite.name, f"took more than {self.suite.limit:.0f} s", False)
                ]
        return self._collect()

    def _collect(self) -> list[Failure]:
        new = self._from_pytest()
        if self.code is not None and self.suite.command:
            new += self._from_gtest()
        if self.code not in (None, 0) and not new and not self._failed:
            new = [Failure(self.suite.name, f"exit code {self.code}\n{self._tail(60)}", False)]
        self._failed |= {failure.test for failure in new}
        return new

    def _from_pytest(self) -> list[Failure]:
        new: list[Failure] = []
        if not self._report.exists():
            return new
        with self._report.open("rb") as file:
            file.seek(self._read)
            lines = file.read().split(b"\n")[:-1]
        for line in lines:
            self._read += len(line) + 1
            event = json.loads(line)
            outcome, test = event["outcome"], event["test"]
            self.counts.outcomes[outcome] += 1
            if outcome == "skipped":
                self.counts.skipped[event["text"]] += 1
            if outcome == "failed" and test not in self._failed:
                new.append(Failure(test, event["text"], "::" in test))
            if outcome != "deselected":
                self.counts.costs.append((event["cpu"], event["seconds"], test))
        return new

    def _from_gtest(self) -> list[Failure]:
        text = self.output.read_text(errors="replace")
        if not (passed := re.findall(r"^\[  PASSED  \] (\d+) test", text, re.M)):
            return []
        names = sorted(set(re.findall(r"^\[  FAILED  \] (\S+?),? ", text, re.M)) - {""})
        names = [name for name in names if "." in name and name not in self._failed]
        self.counts.outcomes["passed"] = int(passed[-1])
        self.counts.outcomes["failed"] = len(names)
        skipped = re.findall(r"^\[  SKIPPED \] (\d+) test", text, re.M)
        self.counts.outcomes["skipped"] = int(skipped[-1]) if skipped else 0
        return [Failure(name, _around(text, name), True) for name in names]

    def _tail(self, lines: int) -> str:
        return "\n".join(self.output.read_text(errors="replace").splitlines()[-lines:])

    def end(self) -> None:
        """Whatever it has started."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, number)
            if self.code is None:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self.code = self._process.wait(10)
        self._ended = self._ended or time.monotonic()


def _around(text: str, name: str) -> str:
    """What a C++ test printed before it failed."""
    before = text.partition(f"[  FAILED  ] {name}")[0].splitlines()
    return "\n".join(before[-30:])
