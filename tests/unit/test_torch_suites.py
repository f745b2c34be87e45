"""tests/versions/torch_suites: what is said of torch's own tests over gloo and over hvdlite."""

from __future__ import annotations

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
