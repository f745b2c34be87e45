"""scripts/test: which suite a file belongs to, which suite starts next, and what a run makes of
passing, failing and unsteady tests."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from suites import run, suite_run
from suites.schedule import hopeless, next_suite, with_those_before
from suites.table import ALL, COMMIT, QUICK, ROOT, SUITES, Suite, files_of, suite_of

TESTS = ROOT / "tests"


def suite(name: str, seconds: float = 1.0, cores: float = 1.0, after: str = "") -> Suite:
    return Suite(name, (ALL,), seconds, command=("true",), cores=cores, after=after)


def name_of(found: Suite | None) -> str | None:
    return found.name if found else None


@pytest.mark.parametrize(
    "path", sorted(str(p.relative_to(TESTS)) for p in TESTS.rglob("test_*.py"))
)
def test_every_file_of_tests_belongs_to_a_suite(path: str) -> None:
    assert suite_of(path)


@pytest.mark.parametrize("suite", SUITES, ids=lambda suite: suite.name)
def test_every_suite_runs_something_in_a_tier_that_exists(suite: Suite) -> None:
    assert bool(suite.command) != bool(files_of(suite))
    assert suite.tiers and set(suite.tiers) <= {QUICK, COMMIT, ALL}
    assert not suite.after or suite.after in {s.name for s in SUITES}


def test_names_of_suites_are_unique() -> None:
    assert len({s.name for s in SUITES}) == len(SUITES)


LONG, SHORT, WIDE = suite("long", 9), suite("short", 1), suite("wide", 20, cores=2)
AFTER_SHORT = suite("after", 5, after="short")


@pytest.mark.parametrize(
    ("waiting", "running", "passed", "cores", "started"),
    [
        ([SHORT, LONG], [], (), 2.5, "long"),
        ([SHORT, WIDE], [LONG], (), 2.5, "short"),  # the longest that fits, not the longest
        ([WIDE], [LONG], (), 2.5, None),
        ([WIDE], [], (), 1.0, "wide"),  # something always runs
        ([SHORT], [LONG], (), 0.0, None),  # one at a time
        ([AFTER_SHORT, SHORT], [], (), 2.5, "short"),
        ([AFTER_SHORT], [SHORT], (), 2.5, None),
        ([AFTER_SHORT], [], ("short",), 2.5, "after"),
        ([], [], (), 2.5, None),
    ],
)
def test_the_longest_suite_that_fits_and_may_run_starts_next(
    waiting: list[Suite],
    running: list[Suite],
    passed: tuple[str, ...],
    cores: float,
    started: str | None,
) -> None:
    assert name_of(next_suite(waiting, running, passed, cores)) == started


CLEANING, CLEANING_TOO = (
    replace(suite(name, 9), cleans_shm=True) for name in ("cleaning", "cleaning too")
)


@pytest.mark.parametrize(("apart", "started"), [(True, "cleaning too"), (False, "short")])
def test_without_a_shm_of_its_own_a_suite_that_cleans_it_does_not_run_beside_another(
    apart: bool, started: str
) -> None:
    assert name_of(next_suite([CLEANING_TOO, SHORT], [CLEANING], (), 2.5, apart)) == started


@pytest.mark.parametrize(
    ("running", "passed", "without_hope"),
    [([SHORT], (), False), ([], ("short",), False), ([LONG], (), True), ([], (), True)],
)
def test_a_suite_has_no_hope_when_the_one_before_it_has_failed(
    running: list[Suite], passed: tuple[str, ...], without_hope: bool
) -> None:
    assert hopeless([AFTER_SHORT], running, passed) == ([AFTER_SHORT] if without_hope else [])


def test_a_suite_that_is_asked_for_brings_the_one_that_it_waits_for() -> None:
    assert with_those_before(["after"], [LONG, SHORT, AFTER_SHORT]) == [SHORT, AFTER_SHORT]
    assert with_those_before(["long"], [LONG, SHORT, AFTER_SHORT]) == [LONG]


def test_a_suite_stands_behind_the_one_that_it_waits_for() -> None:
    names = [s.name for s in SUITES]
    assert all(names.index(s.after) < names.index(s.name) for s in SUITES if s.after)


STEADY = "def test_it():\n    pass\n"
BROKEN = "def test_it():\n    assert 1 == 2, 'the reason'\n"
# Fails in its first run only.
UNSTEADY = """
import pathlib
def test_it():
    seen = pathlib.Path(__file__).with_name("seen")
    before = seen.exists()
    seen.touch()
    assert before, "the first run"
"""
SKIPPED = "import pytest\ndef test_it():\n    pytest.skip('no such device')\n"


@pytest.fixture
def run_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]):
    """Runs a suite with one test of this text: the exit code, what was printed, and what was noted
    as unsteady."""
    monkeypatch.setattr(run, "BUILD", tmp_path)
    monkeypatch.setattr(run, "UNSTEADY", tmp_path / "unsteady.txt")
    monkeypatch.setattr(run, "apart", lambda: ())

    def start(text: str, *more: Suite) -> tuple[int, str, str]:
        file = tmp_path / "test_subject.py"
        file.write_text(text)
        (tmp_path / "pytest.ini").write_text(
            f"[pytest]\npythonpath = {TESTS} {TESTS / 'conformance'}\n"
        )
        (tmp_path / "conftest.py").write_text((TESTS / "conftest.py").read_text())
        monkeypatch.setattr(suite_run, "files_of", lambda suite: [str(file)])
        monkeypatch.setattr(suite_run, "ROOT", tmp_path)
        monkeypatch.setattr(run, "ROOT", tmp_path)
        code = run.Run(ALL, [Suite("subject", (ALL,), 1.0, files=("*",)), *more], "0")()
        noted = tmp_path / "unsteady.txt"
        return code, capfd.readouterr().out, noted.read_text() if noted.exists() else ""

    return start


def test_a_run_that_passes(run_of) -> None:
    code, told, noted = run_of(STEADY)
    assert (code, noted) == (0, "")
    assert "1 passed" in told and "FAILED" not in told and "UNSTEADY" not in told


def test_a_failure_is_shown_with_its_reason_and_lasts(run_of) -> None:
    code, told, noted = run_of(BROKEN)
    assert (code, noted) == (1, "")
    assert (
        "the reason" in told
        and "FAILED: test_subject.py::test_it" in told
        and "UNSTEADY" not in told
    )


def test_a_test_that_passes_the_second_time_is_called_unsteady_and_noted(run_of) -> None:
    code, told, noted = run_of(UNSTEADY)
    assert code == 0
    assert "UNSTEADY: test_subject.py::test_it" in told and "the first run" in told
    assert noted.rstrip().endswith("test_subject.py::test_it")


def test_why_a_test_was_skipped_is_said(run_of) -> None:
    code, told, _ = run_of(SKIPPED + "def test_another():\n    pass\n")
    assert code == 0 and "no such device" in told and "NOT RUN" not in told


def test_a_suite_whose_tests_are_all_skipped_is_told_as_not_run(run_of) -> None:
    code, told, _ = run_of(SKIPPED, suite("another"))
    assert code == 0 and "NOT RUN: subject: all its tests were skipped" in told


def test_a_run_whose_tests_are_all_skipped_fails(run_of) -> None:
    code, told, _ = run_of(SKIPPED)
    assert code == 1 and "FAILED: no test ran" in told


def test_a_suite_that_dies_without_a_failed_test_fails_the_run(run_of) -> None:
    code, told, _ = run_of("import os\ndef test_it():\n    os._exit(3)\n")
    assert code == 1 and "exit code 3" in told


def test_a_module_that_cannot_be_imported_fails_the_run(run_of) -> None:
    code, told, _ = run_of("import no_such_module\n")
    assert code == 1 and "no_such_module" in told


def test_a_suite_whose_tool_is_missing_is_told_as_not_run(run_of) -> None:
    needy = Suite(
        "needy", (ALL,), 1.0, command=("true",), needs="/no/such/tool", package="tool-dev"
    )
    code, told, _ = run_of(STEADY, needy)
    assert code == 0 and "NOT RUN: needy: there is no /no/such/tool" in told and "tool-dev" in told
