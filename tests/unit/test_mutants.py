"""The list of scripts/mutants keeps up with the sources and the tests, and the runner tells killed
from survived and broken."""

from __future__ import annotations

import fnmatch
import re
from pathlib import Path

import pytest
from mutants import run, score
from mutants.mutant import CPP, ROOT, Mutant, everything
from mutants.trying import Outcome, arguments_of

MUTANTS = everything()
_GTEST = re.compile(r"^TEST(?:_F|_P)?\((\w+), *(\w+)\)", re.M)
_INSTANCE = re.compile(r"^INSTANTIATE_TEST_SUITE_P\(\s*(\w+),\s*(\w+)", re.M)
_PRODUCTS = {
    found
    for path in (ROOT / "tests/cpp").rglob("*.cc")
    for found in _INSTANCE.findall(path.read_text())
}
_GTESTS = [
    f"{suite}.{name}"
    for path in (ROOT / "tests/cpp").rglob("*.cc")
    for suite, name in _GTEST.findall(path.read_text())
]


def test_ids_are_unique_and_there_are_enough_of_every_layer() -> None:
    assert len({m.id for m in MUTANTS}) == len(MUTANTS) >= 60
    folders = {"/".join(m.file.split("/")[:2]) for m in MUTANTS}
    core = {f"csrc/{folder}" for folder in ("comm", "engine", "kernels", "rendezvous", "transport")}
    package = {
        f"hvdlite/{folder}"
        for folder in "adapter jax keras launch rendezvous tensorflow tools torch".split()
    }
    assert folders >= core | package


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda m: m.id)
def test_a_mutant_can_be_applied_and_its_tests_exist(mutant: Mutant) -> None:
    text = (ROOT / mutant.file).read_text()
    assert mutant.applied(text) != text
    assert mutant.tests and len({test.startswith(CPP) for test in mutant.tests}) == 1, (
        "C++ tests or Python tests, not both"
    )
    assert mutant.is_cpp == (Path(mutant.file).suffix != ".py")
    for test in mutant.tests:
        assert _exists(test), f"there is no {test}"


def _exists(test: str) -> bool:
    if test.startswith(CPP):
        suite, name = test.removeprefix(CPP).split(".")
        prefix, _, suite = suite.rpartition("/")
        pattern = f"{suite}.{name.partition('/')[0]}"
        return any(fnmatch.fnmatchcase(found, pattern) for found in _GTESTS) and (
            not prefix or (prefix, suite) in _PRODUCTS
        )
    path, *rest = test.split("::")
    if len(rest) == 1:
        return f"def {rest[0]}(" in (ROOT / path).read_text()
    module, _, check = rest[1].partition(".")
    return f"def {check}(" in (ROOT / "tests/conformance/checks" / f"{module}.py").read_text()


def test_tests_of_a_battery_are_one_run_of_pytest() -> None:
    tests = (
        "tests/a.py::test_x tests/b.py::shm-2::m.c tests/a.py::test_y tests/b.py::shm-2::m.d"
    ).split()
    assert arguments_of(tests) == [
        ["tests/a.py::test_x", "tests/a.py::test_y"],
        ["tests/b.py", "-k", "[shm-2-m.c or [shm-2-m.d"],
    ]


def _mutant(*tests: str) -> Mutant:
    return Mutant("X", "x.py", "a", "b", "why", tests)


@pytest.mark.parametrize(
    ("tests", "passed", "failed", "why"),
    [
        (("a.py::test_x",), {"test_x[1]", "test_x[2]"}, [], ""),
        (("a.py::test_x",), {"test_x[1]"}, ["test_x[2]"], "a.py::test_x fails without it"),
        (("a.py::test_x",), {"test_xy"}, [], "a.py::test_x does not run"),
        (("b.py::shm-2::m.c",), {"shm-2-m.c[alone]"}, [], ""),
        (("b.py::shm-2::m.c",), {"shm-2-m.cd"}, [], "b.py::shm-2::m.c does not run"),
        (("C++ A.*",), {"A.b"}, [], ""),
        (("C++ P/A.b/*",), {"P/A.b/0"}, ["P/A.c/0"], ""),
        (("C++ A.b",), {"P/A.b/0", "A.c/stage"}, ["A.bc"], ""),
        (("C++ A.b",), set(), ["A.b"], "C++ A.b fails without it"),
    ],
)
def test_a_mutant_whose_tests_do_not_pass_without_it_is_broken(
    tests: tuple[str, ...], passed: set[str], failed: list[str], why: str
) -> None:
    assert run.Baseline(Outcome(passed, failed)).why_broken(_mutant(*tests)) == why


def test_the_page_keeps_what_was_not_run_and_forgets_what_is_gone() -> None:
    first = {name: score.Row(name, "f.py", "killed", "test_it[a|b]", 3) for name in ("A", "B", "C")}
    text = score.page(["A", "B", "C", "D"], first, old="")
    assert "3 of 4 killed (75 %). Not run: D." in text
    survived = score.Row("A", "f.py", "SURVIVED", "", 5)
    text = score.page(["A", "B"], {"A": survived}, old=text)
    assert "1 of 2 killed (50 %). Written" in text
    assert score.read(text) == {"A": survived, "B": first["B"]}


@pytest.mark.parametrize(("killed", "good"), [(19, True), (18, False)])
def test_of_twenty_one_may_survive(killed: int, good: bool) -> None:
    ids = [str(i) for i in range(20)]
    rows = {i: score.Row(i, "f.py", "killed", "t", 1) for i in ids[:killed]}
    assert score.told(ids, rows)[0] == good


def test_the_score_that_is_committed_is_good_enough_and_about_these_mutants() -> None:
    good, sentence = score.summary([m.id for m in MUTANTS])
    assert good, sentence
