"""Runs the suites of a tier side by side and tells what comes of them: scripts/test calls this
inside the environment.

    python -m suites.run [--tier quick|commit|all] [--list] [SUITE ...]      from tests/

A line for each suite as it ends, failures as they come. Failed tests are run once more, alone: one
that then passes is UNSTEADY, which is no failure of this run, but is written to build/unsteady.txt
to be mended. Output of suites: build/tests/.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence

from suites.schedule import hopeless, next_suite, with_those_before
from suites.suite_run import Failure, SuiteRun, apart
from suites.table import ALL, ROOT, SUITES, Suite

BUILD = ROOT / "build"
UNSTEADY = BUILD / "unsteady.txt"
MANY = 20  # failures, after which running them again would tell nothing
_SHOWN_LINES = 40  # of a failure; the log has all


def say(text: str = "") -> None:
    print(text, flush=True)


def commit() -> str:
    asked = subprocess.run(
        ["git", "rev-parse", "--short=12", "HEAD"], cwd=ROOT, capture_output=True, text=True
    )
    return asked.stdout.strip() or "0"


class Run:
    def __init__(self, tier: str, suites: Sequence[Suite], seed: str) -> None:
        self._tier = tier
        self._seed = seed
        self._waiting = list(suites)
        self._running: list[SuiteRun] = []
        self._over: list[SuiteRun] = []
        self._failures: list[tuple[SuiteRun, Failure]] = []
        self._not_run: list[tuple[Suite, str]] = []
        self._folder = BUILD / "tests"
        self._prefix = apart()
        # more than there are: some of the time tests wait
        self._cores = (os.cpu_count() or 1) + 0.5

    def __call__(self) -> int:
        begun = time.monotonic()
        shutil.rmtree(self._folder, ignore_errors=True)
        self._folder.mkdir(parents=True)
        if not self._prefix:
            say("Suites with MPI run one at a time: only root can give each a /dev/shm of its own.")
        for suite in [s for s in self._waiting if s.missing]:
            self._leave_out(
                suite, f"there is no {suite.missing[0]} (Debian: apt-get install {suite.package})"
            )
        with self._ended_with_us():
            self._all()
            lasting, unsteady = self._again()
        if not lasting and not any(run.ran_a_test for run in self._over):
            lasting.append("no test ran")
        self._tell_the_end(lasting, unsteady, time.monotonic() - begun)
        return 1 if lasting else 0

    def _leave_out(self, suite: Suite, why: str) -> None:
        self._waiting.remove(suite)
        self._not_run.append((suite, why))

    def _all(self) -> None:
        while self._waiting or self._running:
            passed = {run.suite.name for run in self._over if run.passed}
            running = [run.suite for run in self._running]
            for suite in hopeless(self._waiting, running, passed):
                self._leave_out(suite, f"'{suite.after}' has not passed")
            while suite := next_suite(
                self._waiting,
                [run.suite for run in self._running],
                passed,
                self._cores,
                bool(self._prefix),
            ):
                self._waiting.remove(suite)
                self._running.append(SuiteRun(suite, self._folder, self._prefix))
            time.sleep(0.2)
            for run in list(self._running):
                for failure in run.poll():
                    self._failures.append((run, failure))
                    self._show(run, failure)
                if run.code is not None:
                    self._running.remove(run)
                    self._over.append(run)
                    self._line(run)
                    if run.passed and not run.ran_a_test:
                        self._not_run.append((run.suite, "all its tests were skipped"))

    def _again(self) -> tuple[list[str], list[str]]:
        """Failures that last, and those that do not."""
        lasting = [f.test for _, f in self._failures if not f.can_be_repeated]
        again = [(run, f.test) for run, f in self._failures if f.can_be_repeated]
        if len(again) > MANY:
            say(f"\n{len(again)} tests failed: they are not run again")
            return lasting + [test for _, test in again], []
        unsteady: list[str] = []
        for run, test in again:
            say(f"\nagain, alone: {test}")
            alone = SuiteRun(run.suite, self._folder, self._prefix, [test])
            failures: list[Failure] = []
            while alone.code is None:
                time.sleep(0.2)
                failures += alone.poll()
            ran = alone.counts.outcomes["passed"] > 0 and not failures and alone.code == 0
            (unsteady if ran else lasting).append(test)
        return lasting, unsteady

    @contextlib.contextmanager
    def _ended_with_us(self) -> Iterator[None]:
        """However this ends, no suite goes on."""
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, lambda number, frame: sys.exit(128 + number))
        try:
            yield
        finally:
            for run in self._running:
                run.end()

    # ---- what is told

    def _line(self, run: SuiteRun) -> None:
        outcomes = run.counts.outcomes
        counts = ", ".join(
            f"{outcomes[k]} {k}"
            for k in ("passed", "failed", "skipped", "deselected")
            if outcomes[k]
        )
        verdict = "" if run.passed else "   FAILED"
        say(
            f"{run.seconds:6.0f} s {run.cpu_seconds:6.0f} CPU s  {run.suite.name:<14} "
            f"{counts or 'done'}{verdict}"
        )

    def _show(self, run: SuiteRun, failure: Failure) -> None:
        lines = failure.text.rstrip().splitlines()
        say(f"\nFAILED ({run.suite.name}) {failure.test}")
        if len(lines) > _SHOWN_LINES:
            say(f"    ... {run.output.relative_to(ROOT)} has all of it")
        for line in lines[-_SHOWN_LINES:]:
            say(f"    {line}")

    def _tell_the_end(
        self, lasting: Sequence[str], unsteady: Sequence[str], seconds: float
    ) -> None:
        skipped: Counter[str] = Counter()
        deselected = 0
        for run in self._over:
            skipped += run.counts.skipped
            deselected += run.counts.outcomes["deselected"]
        if skipped:
            say("\nskipped:")
            for why, count in skipped.most_common():
                say(f"  {count:4} x {' '.join(why.split())}")
        costs = sorted((cost for run in self._over for cost in run.counts.costs), reverse=True)
        if costs:
            say("\nthe tests that cost most (build/tests/*.jsonl has all):")
            for cpu, took, test in costs[:25]:
                say(f"  {cpu:6.1f} CPU s {took:6.1f} s  {test}")
        for suite, why in self._not_run:
            say(f"\nNOT RUN: {suite.name}: {why}")
        left_out = [s.name for s in SUITES if self._tier not in s.tiers and ALL in s.tiers]
        if left_out or deselected:
            say(
                f"\nleft out of this tier: {', '.join(left_out) or 'no suite'}; {deselected} tests "
                "that are other"
            )
            say("parameters of what has run. All of it: scripts/test --all")
        if unsteady:
            UNSTEADY.parent.mkdir(exist_ok=True)
            with UNSTEADY.open("a") as file:
                for test in unsteady:
                    file.write(
                        f"{time.strftime('%Y-%m-%d %H:%M')} {commit()} {self._tier} {self._seed} "
                        f"{test}\n"
                    )
        say()
        for test in unsteady:
            say(f"UNSTEADY: {test}")
        for test in lasting:
            say(f"FAILED: {test}")
        processor = sum(run.cpu_seconds for run in self._over)
        say(
            f"{'FAILED' if lasting else 'passed'} in {seconds:.0f} s ({processor:.0f} s of "
            "processor time)"
        )


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/test")
    parser.add_argument("--tier", default="quick")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("suites", nargs="*", metavar="SUITE")
    options = parser.parse_args()
    tier = options.tier
    chosen = with_those_before(
        options.suites or [s.name for s in SUITES if tier in s.tiers], SUITES
    )
    if unknown := set(options.suites) - {s.name for s in SUITES}:
        parser.error(
            f"no suite {', '.join(sorted(unknown))}; there are: {', '.join(s.name for s in SUITES)}"
        )
    if options.list:
        for suite in SUITES:
            say(
                f"{suite.name:<14} {'/'.join(suite.tiers):<18} "
                f"{' '.join(suite.files or suite.command)}"
            )
        return 0
    seed = os.environ.setdefault("HVDLITE_TEST_SEED", commit())
    os.environ["HVDLITE_TEST_TIER"] = tier
    # Thousands of processes import hvdlite: the first one compiles it for all.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    say(
        f"tier {tier}, seed {seed} (the same again: HVDLITE_TEST_SEED={seed} scripts/test --{tier})"
    )
    return Run(tier, chosen, seed)()


if __name__ == "__main__":
    sys.exit(main())
