"""tests/versions/torch_suites: what is said of torch's own tests over gloo and over hvdlite."""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType

import loaded_script
import pytest

VERSIONS = Path(__file__).resolve().parents[1] / "versions"


@pytest.fixture(scope="module")
def compared() -> ModuleType:
    return loaded_script.load(VERSIONS / "torch_compared.py")


@pytest.mark.parametrize(
    ("gloo", "hvdlite", "worse", "unexplained", "better"),
    [
        ("passed", "passed", 0, 0, 0),
        ("passed", "failed", 1, 1, 0),
        ("passed", "skipped", 1, 1, 0),
        ("passed", None, 1, 1, 0),  # the run has died in it
        ("failed", "failed", 0, 0, 0),
        ("failed", "passed", 0, 0, 1),
        ("skipped", "skipped", 0, 0, 0),
    ],
)
def test_what_passes_with_gloo_has_to_pass(
    compared: ModuleType, gloo: str, hvdlite: str | None, worse: int, unexplained: int, better: int
) -> None:
    def results(outcome: str | None) -> list[object]:
        return [compared.Result("T.t", outcome, "", 1.0, 2)] if outcome else []

    found = compared.compare("f", results(gloo), results(hvdlite), {})
    assert (len(found.worse), len(found.unexplained), len(found.better)) == (
        worse, unexplained, better,
    )  # fmt: skip
    assert found.over_hvdlite == (hvdlite == "passed")
    with_reason = compared.compare("f", results(gloo), results(hvdlite), {"T.t": "why"})
    assert len(with_reason.worse) == worse and not with_reason.unexplained


def test_a_test_that_made_no_group_of_hvdlite_says_nothing_of_it(compared: ModuleType) -> None:
    one = compared.Result("T.t", "passed", "", 1.0, 0)
    assert compared.compare("f", [one], [one], {}).over_hvdlite == 0


def test_the_page_has_what_torchs_tests_gave() -> None:
    page = loaded_script.load(VERSIONS / "page.py")
    there = (VERSIONS.parents[1] / "docs" / "reference" / "versions.md").read_text()
    found = json.loads((VERSIONS / "suites.json").read_text())
    assert page.written_into(there, page.suites_table(found), page.SUITES_BEGIN) == there, (
        "docs/reference/versions.md: tests/versions/torch_suites --write writes it"
    )


def test_the_table_of_torchs_tests() -> None:
    page = loaded_script.load(VERSIONS / "page.py")
    one = {"gloo": 9, "hvdlite": 8, "reasons": 1, "unexplained": 0, "day": "2026-11-30"}
    text = page.suites_table({"2.14.1": {"wheel": one}, "2.5.0+cpu": {"a/b.py": one}})
    assert text.splitlines()[2:] == [
        "| 2.5.0+cpu | `a/b.py` | 9 | 8 | 1 |  | 2026-11-30 |",
        "| 2.14.1 | in the package | 9 | 8 | 1 |  | 2026-11-30 |",
    ]
