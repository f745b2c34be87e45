"""Lightning's fit() goes on where it is when ranks die and come."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from dying_jobs import ended, kills_at_random
from installed import needs_installed
from launched import Job
from others import PYTHON
from tier import TIER, one_of

needs_installed("lightning", "torch")

PROGRAM = str(Path(__file__).with_name("lightning_deaths_program.py"))
STEPS = 8  # of an epoch
IN_A_TURN = ("forward", "backward", "gate", "tail")
BETWEEN = ("validation", "validated", "saving", "saved", "epoch-end")


def ends(job: Job, kills: list[str], *, epochs: int = 3, **more: str) -> list[Any]:
    """What the processes know that have come to the end, by rank. They agree."""
    found = ended(job, PROGRAM, kills, epochs, **more)
    for end in found:
        for what in ("weights", "steps", "epochs", "schedule", "accuracy"):
            assert end[what] == found[0][what], what
        assert end["schedule"] == end["steps"] == end["epochs"] * STEPS, end
    return found


@pytest.mark.costly
@pytest.mark.watchdog(200)
@pytest.mark.parametrize("rank", [0, 1])
@pytest.mark.parametrize("moment", IN_A_TURN + BETWEEN)
def test_a_rank_dies(job: Job, moment: str, rank: int) -> None:
    if moment in ("saving", "saved") and rank:
        pytest.skip("rank 0 alone saves")
    (one, other) = ends(job, [f"{rank} 5 {moment}"])
    assert one["sizes"] == other["sizes"] == [3, 2] and one["accuracy"] > 0.6


REFUSED = """
import lightning.pytorch as pl
from lightning.pytorch.demos.boring_classes import BoringModel
import hvdlite.lightning
class Two(BoringModel):
    def train_dataloader(self):
        return {"a": super().train_dataloader(), "b": super().train_dataloader()}
trainer = pl.Trainer(
    strategy=hvdlite.lightning.HvdliteStrategy(elastic=True), max_steps=2, accelerator="cpu",
    logger=False, enable_checkpointing=False, limit_val_batches=0,
)
try:
    trainer.fit(Two())
except ValueError as error:
    print(error)
"""


@pytest.mark.costly
@pytest.mark.watchdog(100)
def test_two_loaders_are_refused(job: Job) -> None:
    done = job.end_well("-np", "1", "--min-np", "1", PYTHON, job.script(REFUSED))
    assert b"needs one DataLoader for training: fit() has 2" in done.stdout, done.stdout.decode()


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
    kills = kills_at_random(seed, IN_A_TURN + BETWEEN, of_rank_0=("saving", "saved"))
    assert ends(job, kills, RANKS="3", ALIVE="3", epochs=60)[0]["accuracy"] > 0.9
