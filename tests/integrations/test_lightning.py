"""hvdlite.lightning with the real Lightning, under both of its names."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from launched import ROOT, Job, prefixed

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


@pytest.mark.costly
@pytest.mark.watchdog(120)
@pytest.mark.parametrize("package", PACKAGES)
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


_BY_NAME = """
import importlib, sys, torch
pl = importlib.import_module(sys.argv[1])
demos = importlib.import_module(f"{sys.argv[1]}.demos.boring_classes")
assert "hvdlite.torch.api" not in sys.modules  # the program does not know of hvdlite
trainer = pl.Trainer(
    strategy="hvdlite", accelerator="cpu", fast_dev_run=2, logger=False, enable_progress_bar=False,
    enable_model_summary=False,
)
trainer.fit(demos.BoringModel())
print(type(trainer.strategy).__name__, trainer.world_size, torch.distributed.get_backend())
"""


@pytest.mark.costly
@pytest.mark.watchdog(120)
@pytest.mark.parametrize("package", PACKAGES)
def test_the_strategys_name_is_known_in_a_program_that_does_not_import_hvdlite(
    job: Job, package: str
) -> None:
    done = job.end_well("-np", "2", "python", job.script(_BY_NAME), package)
    for rank in range(2):
        assert prefixed(done.stdout, rank) == ["HvdliteStrategy 2 hvdlite"], done.stderr.decode()


_FABRIC = """
import sys, torch
from lightning.fabric import Fabric
if "arguments" in sys.argv:
    fabric = Fabric(strategy="ddp", devices=2, accelerator="cpu")
    fabric.launch()
else:
    fabric = Fabric()
torch.manual_seed(fabric.global_rank)
model = torch.nn.Linear(2, 1)
model, optimizer = fabric.setup(model, torch.optim.SGD(model.parameters(), 0.1))
for _ in range(3):
    optimizer.zero_grad()
    fabric.backward(model(torch.ones(1, 2) * (1 + fabric.global_rank)).sum())
    optimizer.step()
weights = fabric.all_gather(model.weight.detach())
assert torch.equal(weights[0], weights[1]), weights
print(fabric.world_size, torch.distributed.get_backend())
"""


@pytest.mark.costly
@pytest.mark.watchdog(120)
@pytest.mark.parametrize("how", ("arguments", "variables"))
def test_fabric(job: Job, how: str) -> None:
    """The rows of docs/guides/lightning.md."""
    variables = {"LT_CLI_USED": "1", "LT_STRATEGY": "ddp", "LT_ACCELERATOR": "cpu"}
    variables |= {"LT_DEVICES": "2", "LT_NUM_NODES": "1"}
    flags = ("-np", "2", "--torch-distributed=hvdlite")
    done = job.end_well(
        *flags, "python", job.script(_FABRIC), how, **(variables if how == "variables" else {})
    )
    for rank in range(2):
        assert prefixed(done.stdout, rank) == ["2 hvdlite"], done.stderr.decode()


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
