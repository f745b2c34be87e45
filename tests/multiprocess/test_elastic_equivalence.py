"""Whatever ranks die, come and leave: the training is that of an undisturbed job."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
import tier
from elastic_history import LAUNCHER, goes_by, random_schedule
from launched import PATIENT, Job, ended
from stillness import wait_until_still

pytestmark = pytest.mark.costly

PYTHON = sys.executable
TORCH = str(Path(__file__).with_name("elastic_torch_program.py"))
SCHEDULES = {"quick": 1, "commit": 3, "all": 200}[tier.TIER]
FIRST_SEED = tier.draw("elastic schedules", 1 << 20)

Plan = dict[str, Any]
# 3 ranks; `batch_size` per rank; random numbers in the model.
SAME_SIZE: Plan = {
    "seed": 5, "steps": 40, "dtype": "float32", "dropout": 0.2, "phases": [], "kills": [],
    "optimizer": "Adam", "options": {"lr": 0.01}, "cursor": {"length": 100, "batch_size": 8},
}  # fmt: skip
# Any number of ranks; the same samples in each step.
SAME_SAMPLES: Plan = {
    "seed": 6, "steps": 200, "dtype": "float64", "dropout": 0.0, "phases": [], "kills": [],
    "optimizer": "SGD", "options": {"lr": 0.05, "momentum": 0.9},
    "cursor": {"length": 250, "global_batch": 23, "tail": "carry"},
}  # fmt: skip
# Position, place in the step, ranks.
DEATHS = {
    "begin": [(9, "begin", (1,))],
    "between": [(9, "between", (0,))],
    "backward": [(9, "backward", (2,))],
    "update": [(9, "update", (1,))],
    "inside": [(10, "inside", (0,))],
    "after": [(10, "after", (0, 2))],
    "many": [
        (5, "backward", (0,)), (6, "inside", (0, 1)), (6, "update", (1,)), (20, "after", (2,)),
    ],
}  # fmt: skip


def _train(job: Job, plan: Plan, least: int = 3, delay: int = 0) -> list[Plan]:
    """What the ranks have in the end."""
    job.directory.mkdir(exist_ok=True)
    (job.directory / "plan.json").write_text(json.dumps(plan))
    (job.directory / "hosts").write_text("localhost:3\n")
    job.launcher = [job.script(LAUNCHER, "launcher.py")]
    job.end_well(
        "-np", "3", "--min-np", str(least), "--blacklist-cooldown-range", "0.01", "0.02",
        "--leave-seconds", PATIENT, "--host-discovery-script", "cat hosts", PYTHON, TORCH,
        HVDLITE_DEBUG_DELAY_MICROSECONDS=str(delay),
        HVDLITE_DRIFT="error", HVDLITE_DRIFT_STEPS="2",
    )  # fmt: skip
    assert job.pids() == []
    ends = [json.loads(path.read_text()) for path in job.directory.glob("end.*")]
    assert all(end == ends[0] for end in ends[1:])
    return ends


def _killed_at(job: Job, deaths: list[tuple[int, str, tuple[int, ...]]]) -> None:
    """Of ranks that die together, the first may end the step before the other has come to it."""
    killed = {int(path.name.split(".")[1]) for path in job.directory.glob("kill.*")}
    assert killed == {position for position, _, _ in deaths}


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Plan]:
    """By the name of the plan, what a rank has in the end of a job in which none dies."""
    plans = {"same size": SAME_SIZE, "same samples": SAME_SAMPLES}
    jobs = {name: Job(tmp_path_factory.mktemp("undisturbed")) for name in plans}
    return {name: _train(jobs[name], plan)[0] for name, plan in plans.items()}


@pytest.mark.parametrize("deaths", tier.by_tier(["many"], ["many"], list(DEATHS)))
@pytest.mark.parametrize("delay", tier.by_tier([0], [0], [0, 3000]))
def test_a_job_that_keeps_its_size_has_the_same_bits(
    job: Job, undisturbed: dict[str, Plan], deaths: str, delay: int
) -> None:
    ends = _train(job, {**SAME_SIZE, "kills": DEATHS[deaths]}, delay=delay)
    assert len(ends) == 3
    for what in ("losses", "weights", "moments"):
        assert ends[0][what] == undisturbed["same size"][what], what
    _killed_at(job, DEATHS[deaths])


@pytest.mark.parametrize("rank", tier.one_of([0, 2], "a death with a spare"))
def test_a_job_with_a_spare_has_the_same_bits(
    job: Job, undisturbed: dict[str, Plan], rank: int
) -> None:
    plan = {**SAME_SIZE, "kills": [(9, "backward", (rank,))], "dies_behind": "warm"}
    (job.directory / "plan.json").write_text(json.dumps(plan))
    process = job.start("-np", "3", "--min-np", "1", "--spares", "1", PYTHON, TORCH)
    job.wait_for_files([f"kill.9.{rank}", "pid.4"])
    wait_until_still(int((job.directory / "pid.4").read_text()))  # in run, as a spare
    (job.directory / "warm").touch()
    ended(process)
    ends = [json.loads(path.read_text()) for path in job.directory.glob("end.*")]
    assert len(ends) == 3
    for end in ends:
        for what in ("losses", "weights", "moments"):
            assert end[what] == undisturbed["same size"][what], what
    generations = {path.read_text() for path in job.directory.glob("generations.*")}
    assert generations == {"2"}, "no step was made by two ranks"
    assert job.pids() == []


def test_jobs_of_other_sizes_train_alike_with_a_global_batch(
    job: Job, undisturbed: dict[str, Plan]
) -> None:
    phases = [(40, 2), (80, 4), (120, 1), (160, 3)]
    kills = [(20, "backward", (1,)), (60, "inside", (0,)), (100, "update", (3,))]
    ends = _train(job, {**SAME_SAMPLES, "phases": phases, "kills": kills}, least=1)
    _killed_at(job, kills)
    for what in ("losses", "weights", "moments"):
        pairs = zip(ends[0][what], undisturbed["same samples"][what], strict=True)
        distances = [abs(float.fromhex(one) - float.fromhex(other)) for one, other in pairs]
        assert max(distances) < 1e-10, what


@pytest.mark.parametrize("number", range(SCHEDULES))
def test_each_sample_of_each_epoch_is_in_one_step_of_the_surviving_history(
    job: Job, number: int
) -> None:
    goes_by(random_schedule(FIRST_SEED + number), job)
