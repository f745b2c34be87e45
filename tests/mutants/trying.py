"""Runs tests in a copy of the tree, as it is or with a fault in it, and says which of them
failed."""

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
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from mutants.mutant import CPP, ROOT, Mutant

PATIENCE = {"HVDLITE_TEST_PATIENCE": os.environ.get("HVDLITE_TEST_PATIENCE", "3")}
PYTHON_LIMIT, CPP_LIMIT, BUILD_LIMIT = 600.0, 120.0, 1800.0  # seconds


# here: a child between fork and exec must not wait for a lock of the loader's
_LIBC = ctypes.CDLL(None)


def _end_with_parent() -> None:
    _LIBC.prctl(1, signal.SIGTERM)  # PR_SET_PDEATHSIG


class TimedOut(Exception):
    """The tests did not end."""


class NotBuilt(Exception):
    """The compiler refuses it."""


@dataclass
class Outcome:
    passed: set[str] = field(default_factory=set)
    failed: list[str] = field(default_factory=list)


def run(
    command: Sequence[str],
    limit: float,
    folder: Path,
    log: Path,
    environment: dict[str, str] | None = None,
) -> int:
    """The exit code; what was printed is in `log`."""
    with log.open("w") as out:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=os.environ | (environment or {}),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            preexec_fn=_end_with_parent,
        )
        try:
            return process.wait(limit)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGINT)  # pytest's fixtures end what they have started
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(30)
            process.kill()
            process.wait()
            raise TimedOut from None


class Tree:
    """A copy of the working tree, in which one mutant at a time stands."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.log = folder.with_suffix(".log")
        self._stamp = 1_000_000_000.0
        listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
        names = subprocess.run(
            listed, cwd=ROOT, check=True, capture_output=True, text=True
        ).stdout.split("\n")
        libraries = [str(path.relative_to(ROOT)) for path in ROOT.glob("hvdlite/*.so")]
        wanted = [*filter(None, names), *libraries]
        for name in wanted:
            self._copy(ROOT / name, folder / name)
        self._remove_all_but(frozenset(wanted))

    def _remove_all_but(self, wanted: frozenset[str]) -> None:
        """What an earlier run copied and the tree no longer has."""
        for path in [each for each in self.folder.rglob("*") if each.is_file()]:
            name = path.relative_to(self.folder)
            made_here = name.parts[0] == "build" or "__pycache__" in name.parts
            if not made_here and (str(name) not in wanted or not (ROOT / name).exists()):
                path.unlink()

    def _copy(self, source: Path, target: Path) -> None:
        if not source.exists() or (target.exists() and target.read_bytes() == source.read_bytes()):
            return
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, target)

    @contextlib.contextmanager
    def having(self, mutant: Mutant) -> Iterator[None]:
        path = self.folder / mutant.file
        before = path.read_text()
        try:
            self._write(path, mutant.applied(before))
            yield
        finally:
            self._write(path, before)

    def _write(self, path: Path, text: str) -> None:
        path.write_text(text)
        # Python knows its compiled files by their source's size and second
        if path.suffix == ".py":
            self._stamp += 1
            os.utime(path, (self._stamp, self._stamp))

    # ---- Python

    def pytest(self, tests: Sequence[str], stop: bool) -> Outcome:
        """Runs these tests; a kind of test is a process. With `stop` the first failure is the
        last."""
        outcome = Outcome()
        for arguments in arguments_of(tests):
            report = self.log.with_suffix(".xml")
            report.unlink(missing_ok=True)
            options = [
                "-q",
                "-p",
                "no:cacheprovider",
                f"--junitxml={report}",
                *(["-x"] if stop else []),
            ]
            environment = PATIENCE | {"PYTHONPATH": str(self.folder), "HVDLITE_TEST_TIER": "all"}
            code = run(
                [sys.executable, "-m", "pytest", *options, *arguments],
                PYTHON_LIMIT,
                self.folder,
                self.log,
                environment,
            )
            if code not in (0, 1) or not report.exists():
                outcome.failed.append(f"pytest ends with {code}")
            else:
                _read_junit(report, outcome)
            if stop and outcome.failed:
                break
        return outcome

    # ---- C++

    @property
    def _build(self) -> Path:
        return self.folder / "build" / "cpp"

    def build(self) -> None:
        """Compiles what has changed. One file at a time: files that are compiled together would all
        be compiled again."""
        if not (self._build / "CMakeCache.txt").exists():
            generator = ["-G", "Ninja"] if shutil.which("ninja") else []
            flags = ["-DHVDLITE_TESTS=ON", "-DHVDLITE_WERROR=OFF"]
            command = ["cmake", "-S", ".", "-B", str(self._build), *generator, *flags]
            if run(command, BUILD_LIMIT, self.folder, self.log, {"HVDLITE_UNITY": "OFF"}):
                raise NotBuilt(self.log.read_text()[-2000:])
        command = [
            "cmake",
            "--build",
            str(self._build),
            "--target",
            "hvdlite_tests",
            "--parallel",
            str(os.cpu_count() or 1),
        ]
        if run(command, BUILD_LIMIT, self.folder, self.log, {"HVDLITE_UNITY": "OFF"}):
            raise NotBuilt(self.log.read_text()[-2000:])

    def gtest(self, tests: Sequence[str], stop: bool) -> Outcome:
        chosen = ":".join(
            dict.fromkeys(pattern for test in tests for pattern in gtest_patterns(test))
        )
        report = self.log.with_suffix(".json")
        report.unlink(missing_ok=True)
        options = [
            f"--gtest_filter={chosen}",
            f"--gtest_output=json:{report}",
            *(["--gtest_fail_fast"] if stop else []),
        ]
        run(
            [str(self._build / "hvdlite_tests"), *options],
            CPP_LIMIT,
            self.folder,
            self.log,
            PATIENCE,
        )
        outcome = Outcome()
        if not report.exists():
            begun = [
                line.split("]")[1].strip()
                for line in self.log.read_text().splitlines()
                if line.startswith("[ RUN")
            ]
            outcome.failed.append(f"{begun[-1] if begun else 'the first test'} (the process ends)")
            return outcome
        for suite in json.loads(report.read_text())["testsuites"]:
            for test in suite["testsuite"]:
                if test.get("result") == "SKIPPED" or test["status"] != "RUN":
                    continue
                name = f"{suite['name']}.{test['name']}"
                outcome.failed.append(name) if "failures" in test else outcome.passed.add(name)
        return outcome


def gtest_patterns(test: str) -> list[str]:
    """How GoogleTest may call it: without a prefix all products of its parameters are meant."""
    name = test.removeprefix(CPP)
    return [name] if "/" in name else [name, f"*/{name}/*", f"{name}/*"]


def arguments_of(tests: Sequence[str]) -> list[list[str]]:
    """What pytest is called with, as often as it is called."""
    plain: list[str] = []
    batteries: dict[str, list[str]] = {}
    for test in tests:
        if test.startswith(CPP):
            continue
        path, *rest = test.split("::")
        if len(rest) == 1:
            plain.append(test)
        else:
            batteries.setdefault(path, []).append("-".join(rest))
    return [
        *([plain] if plain else []),
        *([path, "-k", " or ".join(f"[{c}" for c in checks)] for path, checks in batteries.items()),
    ]


def _read_junit(report: Path, outcome: Outcome) -> None:
    for case in ElementTree.parse(report).iter("testcase"):
        name = re.sub(r"^test_it\[(.*)\]$", r"\1", case.get("name", ""))
        kinds = {child.tag for child in case}
        if kinds & {"failure", "error"}:
            outcome.failed.append(name)
        elif "skipped" not in kinds:
            outcome.passed.add(name)
