"""Applies small faults, one at a time, and tells which are noticed by the tests that are named for
them: scripts/mutants calls this.

    python -m mutants.run [--list] [--scratch FOLDER] [ID ...]      from tests/

First the tests run without any fault: a mutant whose tests do not pass then is BROKEN. Results go
to tests/mutants/SCORE.md.
"""

from __future__ import annotations

import argparse
import fnmatch
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from mutants import score
from mutants.mutant import CPP, ROOT, Mutant, everything
from mutants.trying import NotBuilt, Outcome, TimedOut, Tree, gtest_patterns


def say(text: str) -> None:
    print(text, flush=True)


def _named(name: str, test: str) -> bool:
    """Whether a report calls that test so, which may have parameters."""
    if test.startswith(CPP):
        return any(fnmatch.fnmatchcase(name, pattern) for pattern in gtest_patterns(test))
    return name.partition("[")[0] == "-".join(test.split("::")[1:])


@dataclass
class Baseline:
    outcome: Outcome

    def why_broken(self, mutant: Mutant) -> str:
        for test in mutant.tests:
            if any(_named(name, test) for name in self.outcome.failed):
                return f"{test} fails without it"
            if not any(_named(name, test) for name in self.outcome.passed):
                return f"{test} does not run"
        return ""


def baseline(tree: Tree, tests: Sequence[str], cpp: bool) -> Baseline:
    """Without a fault: file by file, because a file that hangs must not hide the others."""
    whole = Outcome()
    files: dict[str, list[str]] = {}
    for test in sorted(set(tests)):
        if test.startswith(CPP) == cpp:
            files.setdefault("" if cpp else test.partition("::")[0], []).append(test)
    for file, named in files.items():
        try:
            found = tree.gtest(named, stop=False) if cpp else tree.pytest(named, stop=False)
        except TimedOut:
            say(f"without a fault: {file or 'the C++ tests'}: out of time")
            continue
        whole.passed |= found.passed
        whole.failed += found.failed
        if found.failed:
            say(f"without a fault: {file or 'the C++ tests'}: FAILED {' '.join(found.failed)}")
    return Baseline(whole)


class Run:
    """`note` is told each result as it comes: a run of many minutes may be cut off."""

    def __init__(
        self, scratch: Path, mutants: Sequence[Mutant], note: Callable[[score.Row], None]
    ) -> None:
        self._scratch = scratch
        self._mutants = mutants
        self._note = note
        self._python = [m for m in mutants if not m.is_cpp]
        self._lock = threading.Lock()
        self._before: dict[str, Baseline] = {}  # of Python's tests, by file
        self._before_lock = threading.Lock()
        self._results: dict[str, score.Row] = {}

    def __call__(self) -> dict[str, score.Row]:
        """C++ in one thread, Python in another one, and in both when the C++ is done."""
        self._scratch.mkdir(parents=True, exist_ok=True)
        threads = [
            threading.Thread(target=work, daemon=True)
            for work in (self._work_on_cpp, self._work_on_python)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return self._results

    def _work_on_cpp(self) -> None:
        # Headers last: a fault in one costs dozens of files.
        mutants = sorted(
            (m for m in self._mutants if m.is_cpp), key=lambda m: m.file.endswith(".h")
        )
        if mutants:
            tree = Tree(self._scratch / "cpp")
            try:
                tree.build()
                before = baseline(tree, [test for m in mutants for test in m.tests], cpp=True)
            except NotBuilt as error:
                say(f"without a fault: {error}")
                before = Baseline(Outcome())
            for mutant in mutants:
                self._tell(mutant, self._try(tree, mutant, before))
        self._work_on_python("python-1")

    def _work_on_python(self, name: str = "python-0") -> None:
        if not self._python:
            return
        tree = Tree(self._scratch / name)
        while True:
            with self._lock:
                if not self._python:
                    return
                mutant = self._python.pop(0)
            self._tell(mutant, self._try(tree, mutant, self._without(tree, mutant)))

    def _without(self, tree: Tree, mutant: Mutant) -> Baseline:
        """How the tests of this mutant end without it. All that mutants name of a file is one
        run."""
        everywhere = Outcome()
        for file in dict.fromkeys(test.partition("::")[0] for test in mutant.tests):
            with self._before_lock:
                if file not in self._before:
                    named = [
                        test for m in self._mutants for test in m.tests if test.startswith(file)
                    ]
                    self._before[file] = baseline(tree, named, cpp=False)
            everywhere.passed |= self._before[file].outcome.passed
            everywhere.failed += self._before[file].outcome.failed
        return Baseline(everywhere)

    def _try(self, tree: Tree, mutant: Mutant, before: Baseline) -> score.Row:
        start = time.monotonic()

        def row(result: str, by: str) -> score.Row:
            return score.Row(mutant.id, mutant.file, result, by, round(time.monotonic() - start))

        if why := before.why_broken(mutant):
            return row("BROKEN", why)
        try:
            with tree.having(mutant):
                if mutant.is_cpp:
                    tree.build()
                failed = (tree.gtest if mutant.is_cpp else tree.pytest)(mutant.tests, True).failed
        except TimedOut:
            return row("killed" if mutant.hangs else "HUNG", "out of time")
        except (NotBuilt, ValueError) as error:
            return row("BROKEN", str(error).strip().splitlines()[-1])
        return row("killed", failed[0]) if failed else row("SURVIVED", "")

    def _tell(self, mutant: Mutant, row: score.Row) -> None:
        with self._lock:
            self._results[mutant.id] = row
            self._note(row)
            done = f"{len(self._results)}/{len(self._mutants)}"
            say(
                f"{done:>7}  {row.result:8} {mutant.id:6} {row.seconds:4} s  {mutant.file}  "
                f"{row.by or mutant.why}"
            )


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="scripts/mutants", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--list", action="store_true", help="name them, and run nothing")
    parser.add_argument(
        "--scratch",
        type=Path,
        default=ROOT / "build" / "mutants",
        help="where copies of the tree go",
    )
    parser.add_argument("ids", nargs="*", metavar="ID")
    given = parser.parse_args()
    mutants = everything()
    if unknown := set(given.ids) - {m.id for m in mutants}:
        parser.error(f"no mutant is called {', '.join(sorted(unknown))}")
    chosen = [m for m in mutants if not given.ids or m.id in given.ids]
    if given.list:
        for mutant in chosen:
            say(f"{mutant.id:6} {mutant.file}: {mutant.why}")
        return 0
    ids = [m.id for m in mutants]
    rows = Run(given.scratch.resolve(), chosen, lambda row: score.note(ids, row))()
    good, summary = score.summary(ids)
    say(summary)
    return 0 if good and all(row.result == "killed" for row in rows.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
