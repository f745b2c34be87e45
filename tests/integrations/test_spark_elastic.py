"""hvdlite.spark.run_elastic on a real Spark: a cluster of two executors with one slot each."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from spark_session import EXECUTOR, SLOW, TASK, classic, needs_spark

needs_spark()

from hvdlite import spark as hvd_spark  # noqa: E402

pytestmark = [pytest.mark.watchdog(3 * SLOW), pytest.mark.full]


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with classic(tmp_path_factory.mktemp("spark"), "local-cluster[2,1,1024]") as found:
        yield found


def training(at_batch: Callable[[int], None], done: Callable[[int, int], bool]) -> Any:
    """A function that counts batches. `at_batch` is called in each, before the commit; `done` gets
    batch and size."""

    def run(name: str) -> tuple[str, int, int, int, int]:
        import time

        import numpy as np

        import hvdlite as hvd

        hvd.init()
        state = hvd.elastic.ObjectState(batch=0, sum=0.0)

        @hvd.elastic.run
        def train(state: Any) -> None:
            print(f"{hvd.size()} ranks from batch {state.batch} on", flush=True)
            while not hvd.allreduce(np.array([float(done(state.batch, hvd.size()))]), op=hvd.Min)[
                0
            ]:
                state.sum += float(hvd.allreduce(np.ones(1))[0])
                at_batch(state.batch)
                time.sleep(0.01)  # poll: the survivor leaves the processor to its new peer
                state.batch += 1
                state.commit()

        train(state)
        assert state.sum == state.batch  # no batch was lost, and none was counted twice
        return name, hvd.rank(), hvd.size(), state.batch, hvd.elastic.generation()

    return run


@pytest.mark.parametrize("what", [EXECUTOR, TASK, "rank"])
def test_training_goes_on_from_its_last_commit(session: Any, tmp_path: Path, what: str) -> None:
    died = tmp_path / "died"

    def at_batch(batch: int) -> None:
        import os
        import signal

        from spark_session import kill_above

        import hvdlite as hvd

        if batch == 5 and hvd.rank() == 1 and not died.exists():
            died.touch()
            if what != "rank":
                kill_above(what)
                signal.pause()  # until its guardian ends it
            os.kill(os.getpid(), signal.SIGKILL)

    out, err = io.StringIO(), io.StringIO()
    results = hvd_spark.run_elastic(
        training(at_batch, lambda batch, size: died.exists() and size == 2 and batch > 10),
        ("mine",),
        num_proc=2,
        min_num_proc=1,
        env={"COLOUR": "green"},
        stdout=out,
        stderr=err,
    )
    said = (out.getvalue(), err.getvalue())
    assert [each[:3] for each in results] == [("mine", 0, 2), ("mine", 1, 2)], said
    assert len({batch for _, _, _, batch, _ in results}) == 1
    assert all(generation >= 3 for *_, generation in results)
    assert "[0]<stdout>:2 ranks from batch 0 on" in said[0]
    # The survivor alone, which may have committed the batch in which the other one died.
    assert re.search(r"^\[0\]<stdout>:1 ranks from batch [56] on$", said[0], re.M), said
    assert ("hvdlite.spark: a task of Spark on " in said[1]) == (what != "rank"), said


def test_a_fault_of_the_program_ends_the_job_with_its_own_error(session: Any) -> None:
    def at_batch(batch: int) -> None:
        if batch == 3:
            raise KeyError("of the program")

    with pytest.raises(RuntimeError, match="KeyError: 'of the program'") as caught:
        hvd_spark.run_elastic(training(at_batch, lambda batch, size: False), ("mine",), num_proc=1)
    assert isinstance(caught.value.__cause__, KeyError)
    assert "in at_batch" in str(caught.value)


def test_what_cannot_begin_is_told(session: Any) -> None:
    with pytest.raises(ValueError, match="run_elastic.num_proc=5. needs 5 slots .* has 2"):
        hvd_spark.run_elastic(print, num_proc=5)
    with pytest.raises(ValueError, match="min_num_proc is at most num_proc"):
        hvd_spark.run_elastic(print, num_proc=1, min_num_proc=2)
    with pytest.raises(RuntimeError, match="only 0 of 2 tasks have started within 0 s"):
        hvd_spark.run_elastic(print, num_proc=2, start_timeout=0)
    # No task of it is left in a slot.
    assert hvd_spark.run(lambda: 7, num_proc=2) == [7, 7]


def test_a_program_without_training_returns_each_ranks_result(session: Any) -> None:
    def add() -> tuple[int, float]:
        import numpy as np

        import hvdlite as hvd

        hvd.init()
        return hvd.rank(), float(hvd.allreduce(np.ones(1), op=hvd.Sum)[0])

    assert hvd_spark.run_elastic(add, num_proc=2) == [(0, 2.0), (1, 2.0)]


def test_the_example(tmp_path: Path) -> None:
    """With a Spark of its own on this machine."""
    pytest.importorskip("sklearn", reason="scikit-learn is not installed")
    example = Path(__file__).resolve().parents[2] / "examples" / "spark_elastic_digits.py"
    done = subprocess.run(
        [sys.executable, str(example), "--kill"],
        capture_output=True,
        text=True,
        env={**os.environ, "PYSPARK_SUBMIT_ARGS": "--master local[2] pyspark-shell"},
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    said = [line.split("  ") for line in done.stdout.splitlines() if line.startswith("rank ")]
    assert "[0]<stdout>:step 50: rank 0 of 1" in done.stdout, done.stdout
    assert said and float(said[0][1].split()[-1]) > 0.85
