"""train() of the Hugging Face Trainer goes on where it is when ranks die and come."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from dying_jobs import ended, kills_at_random
from installed import needs_installed
from launched import Job
from tier import TIER, one_of

needs_installed("transformers", "accelerate", "torch")

PROGRAM = str(Path(__file__).with_name("hugging_face_deaths_program.py"))
STEPS = 8  # of an epoch
IN_A_TURN = ("forward", "backward", "gate", "tail")
BETWEEN = ("log", "evaluation", "saved", "epoch-end")


def ends(job: Job, kills: list[str], *, epochs: int = 3, **more: str) -> list[Any]:
    """What the processes know that have come to the end, by rank. They agree."""
    found = ended(job, PROGRAM, kills, epochs, **more)
    for end in found:
        for what in ("weights", "steps", "schedule", "accuracy"):
            assert end[what] == found[0][what], what
        assert end["schedule"] == end["steps"] and end["steps"] % 2 == 0, end
    return found


@pytest.mark.costly
@pytest.mark.watchdog(200)
@pytest.mark.parametrize("rank", [0, 1])
@pytest.mark.parametrize("moment", IN_A_TURN + BETWEEN)
def test_a_rank_dies(job: Job, moment: str, rank: int) -> None:
    (one, other) = ends(job, [f"{rank} 5 {moment}"])
    assert one["sizes"] == other["sizes"] == [3, 2] and one["accuracy"] > 0.6
    assert one["steps"] == 3 * STEPS


def test_an_older_trainer_is_refused() -> None:
    from hvdlite.transformers import elastic

    with pytest.raises(TypeError, match="has no _run_epoch, get_batch_samples"):
        elastic(object())


@pytest.mark.costly
@pytest.mark.watchdog(200)
def test_batches_of_a_step_are_made_again(job: Job) -> None:
    """Four of them, whose gradients are accumulated."""
    for end in ends(job, ["1 1 backward"], ACCUMULATE="4", STEPS="2"):
        assert end["sizes"] == [3, 2] and end["steps"] == 6


@pytest.mark.costly
@pytest.mark.watchdog(200)
def test_a_newcomer_comes_in_the_middle(job: Job) -> None:
    first, second, third = ends(job, ["0 5 backward"], RANKS="3")
    assert first["sizes"] == second["sizes"] == [3, 2, 3] and third["sizes"] == [3]


@pytest.mark.costly
@pytest.mark.watchdog(900)
@pytest.mark.parametrize("seed", range(10) if TIER == "all" else one_of(range(10), "deaths"))
def test_deaths_at_any_time(job: Job, seed: int) -> None:
    """Five in each job, of any rank, with newcomers; rank 0 in a third of them."""
    kills = kills_at_random(seed, IN_A_TURN + BETWEEN)
    assert ends(job, kills, RANKS="3", ALIVE="3", epochs=60)[0]["accuracy"] > 0.9
