"""hvdlite.lightning with the real Lightning, under both of its names."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from launched import ROOT, Job, prefixed
from tier import one_of

NEEDS = "is not installed: pip install '.[lightning]'"
pytest.importorskip("pytorch_lightning", reason=f"pytorch-lightning {NEEDS}")
pytest.importorskip("lightning", reason=f"lightning {NEEDS}")

PROGRAM = str(Path(__file__).parent / "lightning_program.py")
PACKAGES = ("lightning.pytorch", "pytorch_lightning")


def run(job: Job, ranks: int, package: str, *checks: str) -> None:
    """Each rank comes through each check."""
    done = job.end_well("-np", str(ranks), "python", PROGRAM, package, *checks)
    for rank in range(ranks):
        assert prefixed(done.stdout, rank) == list(checks), done.stderr.decode()


@pytest.mark.watchdog(120)
@pytest.mark.parametrize("package", one_of(PACKAGES, "a package of Lightning"))
def test_losses_are_gloos(job: Job, package: str) -> None:
    run(job, 2, package, "equals_gloo")


@pytest.mark.full
@pytest.mark.watchdog(200)
@pytest.mark.parametrize("package", PACKAGES)
def test_checkpoints_hooks_and_the_strategys_name(job: Job, package: str) -> None:
    run(job, 2, package, "checkpoints", "by_name", "a_hook_of_ddp")


@pytest.mark.full
@pytest.mark.watchdog(200)
def test_losses_are_gloos_on_four_ranks(job: Job) -> None:
    run(job, 4, "lightning.pytorch", "equals_gloo", "checkpoints")


@pytest.mark.full
@pytest.mark.watchdog(120)
def test_the_error_of_a_rank_is_an_error_of_the_others(job: Job) -> None:
    done = job.run("-np", "2", "python", PROGRAM, "lightning.pytorch", "a_failing_rank")
    assert done.returncode != 0
    assert "ValueError: a bad batch" in done.stderr.decode()
    assert prefixed(done.stdout, 0) == ["told of rank 1"], done.stderr.decode()


_WITHOUT_STRATEGY = """
import sys, torch, lightning.pytorch as pl
from lightning.pytorch.demos.boring_classes import BoringModel
from lightning.pytorch.plugins.environments import LightningEnvironment
if "init" in sys.argv:
    import hvdlite.torch.distributed
    hvdlite.torch.distributed.init()
pl.Trainer(
    accelerator="cpu", devices=1, fast_dev_run=2, logger=False, enable_progress_bar=False,
    enable_model_summary=False,
    plugins=[LightningEnvironment()],  # else Lightning imports mpi4py, which may have no library
).fit(BoringModel())
"""


@pytest.mark.full
@pytest.mark.watchdog(120)
@pytest.mark.parametrize("how", ["", "init"])
def test_a_trainer_without_the_strategy_is_told_that_it_trains_alone(job: Job, how: str) -> None:
    done = job.end_well("-np", "2", "python", job.script(_WITHOUT_STRATEGY), how)
    (line,) = re.findall(r".*this rank trains a model of its own.*", done.stderr.decode())
    assert "Pass strategy=hvdlite.lightning.HvdliteStrategy() to Lightning's Trainer" in line
    assert ("have sent nothing to each other" in line) == (how == "init")


@pytest.mark.full
@pytest.mark.watchdog(150)
def test_the_example_learns(job: Job) -> None:
    pytest.importorskip("sklearn", reason="scikit-learn is not installed")
    example = str(ROOT / "examples" / "lightning_digits.py")
    said = job.end_well("-np", "2", "python", example).stdout.decode()
    assert re.search(r"2 ranks, accuracy 0\.9\d+", said), said
