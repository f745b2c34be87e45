"""fit() of Keras that goes on where it is when ranks die and come, on each backend."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from dying_jobs import ended, kills_at_random
from installed import needs_installed
from launched import Job
from others import PYTHON
from tier import TIER, one_of

needs_installed("keras")

PROGRAM = str(Path(__file__).with_name("fit_deaths_program.py"))
STEPS = 8  # of an epoch
SAMPLES = 96

IN_A_TURN = (
    "before-turn", "behind-turn", "load", "during", "before-computed", "behind-computed",
    "before-boundary", "behind-boundary", "batch-end",
)  # fmt: skip
BETWEEN = ("epoch-begin", "validation", "epoch-end", "second", "saving")
BACKENDS = ("torch", "jax", "tensorflow")


def ends(
    job: Job, backend: str, kills: list[str], *flags: str, epochs: int = 3, **more: str
) -> list[Any]:
    """What the processes know that have come to the end, by rank. They agree."""
    needs_installed(backend)
    if backend == "jax":  # Keras loads TensorFlow where it is installed
        more["JAX_PLATFORMS"] = "cpu"
    found = ended(
        job, PROGRAM, kills, epochs, *flags, KERAS_BACKEND=backend, TF_CPP_MIN_LOG_LEVEL="2", **more
    )
    for end in found:
        for what in (
            "weights",
            "turns",
            "steps",
            "iterations",
            "epochs",
            "shown",
            "ends",
            "saved",
            "means",
        ):
            assert end[what] == found[0][what], what
        each_step_once(end)
    return found


def each_step_once(end: Any) -> None:
    """Each step of each epoch, from the first one of this process on. No epoch is counted twice,
    and the callbacks of a newcomer know those before."""
    whole = [tuple(each) for each in end["whole"]]
    first = end["steps"] - len(whole)
    step = SAMPLES // STEPS
    assert whole == [divmod((i + 1) * step, SAMPLES) for i in range(first, end["steps"])]
    assert end["steps"] == end["iterations"] == end["turns"] == STEPS * len(end["epochs"])
    assert end["epochs"] == list(range(len(end["epochs"])))
    assert end["ends"] == end["saved"] == len(end["epochs"])


@pytest.mark.costly
@pytest.mark.watchdog(200)
@pytest.mark.parametrize("backend", one_of(BACKENDS, "fit's death"))
@pytest.mark.parametrize("rank", one_of([0, 1], "fit's rank"))
@pytest.mark.parametrize("moment", IN_A_TURN + BETWEEN)
def test_a_rank_dies(job: Job, backend: str, moment: str, rank: int) -> None:
    """No step is lost, and the callbacks of an epoch's end are called once."""
    if moment == "saving" and rank:
        rank = 0  # nobody else saves
    for end in ends(job, backend, [f"{rank} 5 {moment}"]):
        assert end["steps"] == 3 * STEPS and end["sizes"] == [[3, 2]]
        assert end["means"][2] == SAMPLES and max(end["means"]) <= SAMPLES, end["means"]


@pytest.mark.watchdog(200)
@pytest.mark.parametrize("backend", one_of(BACKENDS, "fit's first step"))
def test_the_first_step_of_an_epoch_is_made_again(job: Job, backend: str) -> None:
    """Its metrics have begun anew by then."""
    for end in ends(job, backend, ["1 9 load"]):
        assert end["means"] == [SAMPLES] * 3, end["means"]


@pytest.mark.costly
@pytest.mark.watchdog(200)
@pytest.mark.parametrize("rank", one_of([0, 1], "fit's compiling rank"))
def test_jax_has_compiled_the_step_of_fewer_ranks_before_one_dies(job: Job, rank: int) -> None:
    for end in ends(job, "jax", [f"{rank} 11 load"]):
        assert end["sizes"] == [[3, 2]]
        assert end["compiled"] == [0, 0], end["compiled"]  # for 4 samples, and for 6


@pytest.mark.costly
@pytest.mark.watchdog(200)
@pytest.mark.parametrize("backend", one_of(BACKENDS, "fit's spare"))
def test_a_spare_waits_until_callbacks_have_been_called_again(job: Job, backend: str) -> None:
    """What these exchange is not for it, until it is let in at the next step."""
    found = ends(job, backend, ["1 5 second"], "--spares", "1", epochs=6, RANKS="3")
    assert found[0]["sizes"] == [[3, 2], [2, 3]]
    assert found[2]["sizes"] == [[4, 3]]  # it had counted itself


@pytest.mark.watchdog(200)
@pytest.mark.parametrize("backend", one_of(BACKENDS, "fit's backend"))
def test_a_newcomer_comes_in_the_middle(job: Job, backend: str) -> None:
    first, second, third = ends(job, backend, ["0 5 during"], RANKS="3")
    assert third["sizes"] == [] and len(third["whole"]) < len(first["whole"])
    assert first["accuracies"][-1] == pytest.approx(second["accuracies"][-1], abs=0.05)


@pytest.mark.costly
@pytest.mark.watchdog(200)
@pytest.mark.parametrize("backend", one_of(BACKENDS, "fit's entry"))
@pytest.mark.parametrize("moment", ["before-entry", "behind-entry"])
@pytest.mark.parametrize("rank", [0, 2])
def test_a_rank_dies_while_a_newcomer_comes(job: Job, rank: int, moment: str, backend: str) -> None:
    """Rank 2 is the newcomer."""
    ends(job, backend, ["1 5 batch-end", f"{rank} 0 {moment}"], RANKS="3")


REFUSED = """
import os, keras, numpy as np
import hvdlite.keras as hvd
hvd.init()
def tell(*given, **named):
    try:
        hvd.elastic.fit(*given, **named)
    except (ValueError, TypeError) as error:
        os.write(1, f"{error}\\n".encode())
def model(optimizer, **how):
    net = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    net.compile(optimizer, "mse", **how)
    return net
x, y = np.ones((8, 2), np.float32), np.ones((8, 1), np.float32)
sgd = keras.optimizers.SGD
good = model(hvd.DistributedOptimizer(sgd(0.1)))
tell(model(sgd(0.1)), x, y)
tell(good, iter([x]))
tell(good, x, y[:4])
tell(good, lambda numbers: (x[numbers], y[numbers]))
tell(good, x, y, class_weight={0: 1})
tell(good, x, y, validation_split=0.1)
if keras.backend.backend() != "torch":
    tell(model(hvd.DistributedOptimizer(sgd(0.1)), steps_per_execution=2), x, y)
"""


@pytest.mark.watchdog(150)
@pytest.mark.parametrize("backend", one_of(BACKENDS, "refused"))
def test_what_is_refused(job: Job, backend: str) -> None:
    needs_installed(backend)
    done = job.end_well(
        "-np", "1", "--min-np", "1", PYTHON, job.script(REFUSED),
        KERAS_BACKEND=backend, TF_CPP_MIN_LOG_LEVEL="3",
    )  # fmt: skip
    told = done.stdout.decode().splitlines()
    expected = [
        "the model's optimizer is not distributed", "cannot be dealt to other ranks",
        "the arrays have different lengths: [4, 8]", "x is a function that loads samples",
        "does not take class_weight: give sample_weight", "give validation_data",
        "needs steps_per_execution=1",
    ]  # fmt: skip
    expected = expected[: -1 if backend == "torch" else None]
    assert len(told) == len(expected), told
    for line, words in zip(told, expected, strict=True):
        assert words in line, (line, words)


OTHERS = """
import os, signal, sys, keras, numpy as np
import hvdlite.keras as hvd
hvd.init()
net = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
net.compile(hvd.DistributedOptimizer(keras.optimizers.SGD(0.1)), "mse")
x, y = np.ones((8, 2), np.float32), np.ones((8, 1), np.float32)
class Ends(keras.callbacks.Callback):
    def on_epoch_end(self, epoch, logs):
        if epoch == 2 and hvd.elastic.member() == 2:
            os.kill(os.getpid(), signal.SIGKILL)
mine = [keras.callbacks.EarlyStopping("loss")] if hvd.elastic.member() > 2 else []
try:
    hvd.elastic.fit(net, x, y, batch_size=4, epochs=100_000, callbacks=[Ends(), *mine], verbose=0)
except ValueError as error:
    os.write(1, f"{error}\\n".encode())
    os._exit(7)
"""


@pytest.mark.costly
@pytest.mark.watchdog(150)
def test_a_newcomer_with_other_callbacks_is_told_so(job: Job) -> None:
    needs_installed("torch")
    done = job.run(
        "-np", "2", "--min-np", "1", "--reset-limit", "2", "--blacklist-cooldown-range", "0.02",
        "100", PYTHON, job.script(OTHERS), KERAS_BACKEND="torch",
    )  # fmt: skip
    assert done.returncode != 0
    assert b"elastic.fit: this process has the callbacks ['Ends', 'EarlyStopping'," in done.stdout


@pytest.mark.costly
@pytest.mark.watchdog(900)
@pytest.mark.parametrize("backend", one_of(BACKENDS, "fit's deaths"))
@pytest.mark.parametrize("seed", range(10) if TIER == "all" else one_of(range(10), "deaths"))
def test_deaths_at_any_time(job: Job, seed: int, backend: str) -> None:
    """Five in each job, of any rank, with newcomers; rank 0 in a third of them."""
    kills = kills_at_random(seed, IN_A_TURN + BETWEEN, 300, of_rank_0=("saving",))
    found = ends(job, backend, kills, RANKS="3", ALIVE="3", epochs=60)
    assert found[0]["accuracies"][-1] > 0.9
