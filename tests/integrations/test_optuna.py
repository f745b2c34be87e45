"""hvdlite.optuna with the real Optuna."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from launched import ROOT, Job, prefixed

pytest.importorskip("optuna", reason="Optuna is not installed: pip install '.[optuna]'")

PROGRAM = str(Path(__file__).parent / "optuna_program.py")
CHECKS = (
    "parameters_and_values", "pruning", "errors_of_the_first_rank", "errors_of_one_rank",
    "different_calls", "ask_and_tell", "arguments", "studies_side_by_side",
)  # fmt: skip


def run(job: Job, ranks: int, *checks: str, **variables: str) -> None:
    """Each rank comes through each check."""
    done = job.end_well("-np", str(ranks), "python", PROGRAM, *checks, **variables)
    for rank in range(ranks):
        assert prefixed(done.stdout, rank) == list(checks), done.stderr.decode()


@pytest.mark.watchdog(120)
def test_all_ranks_have_one_trial(job: Job) -> None:
    run(job, 2, *CHECKS)


@pytest.mark.full
@pytest.mark.watchdog(120)
def test_three_ranks(job: Job) -> None:
    run(job, 3, *CHECKS)


@pytest.mark.full
@pytest.mark.watchdog(120)
def test_a_rank_that_fails_while_others_wait_in_a_collective_ends_the_job(job: Job) -> None:
    run(job, 2, "a_rank_fails_while_others_wait", HVDLITE_STALL_CHECK_TIME_SECONDS="1")


@pytest.mark.full
@pytest.mark.watchdog(120)
@pytest.mark.parametrize("studies, trials", [("1", 10), ("2", 20)])
def test_the_example_finds_a_good_model(job: Job, studies: str, trials: int) -> None:
    pytest.importorskip("sklearn", reason="scikit-learn is not installed")
    example = str(ROOT / "examples" / "optuna_digits.py")
    said = job.end_well("-np", "2", "python", example, "--studies", studies).stdout.decode()
    found = re.search(r"2 ranks, (\d+) trials, (\d+) pruned, best accuracy 0\.9\d+ with", said)
    assert found and int(found[1]) == trials, said
