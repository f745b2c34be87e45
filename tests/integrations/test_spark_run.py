"""hvdlite.spark.run on a real Spark: one cluster of two executors for this file."""

from __future__ import annotations

import io
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from machine import within
from spark_session import SLOW, classic, needs_spark
from waiting import wait_until

needs_spark()

from hvdlite import spark as hvd_spark  # noqa: E402

pytestmark = pytest.mark.watchdog(SLOW)


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with classic(tmp_path_factory.mktemp("spark")) as found:
        yield found


def test_smoke(session: Any, tmp_path: Path) -> None:
    """One session: results, output, a failing rank, too many ranks."""

    def train(factor: int, plus: int = 0) -> tuple[Any, ...]:
        import os

        import numpy as np

        import hvdlite as hvd

        hvd.init()
        total = float(hvd.allreduce(np.ones(3) * factor, op=hvd.Sum)[0]) + plus
        print(f"rank {hvd.rank()} has {total}")
        return hvd.rank(), hvd.size(), hvd.local_rank(), total, os.environ["MINE"], os.getppid()

    out, err = io.StringIO(), io.StringIO()
    found = hvd_spark.run(
        train, (3,), {"plus": 1}, num_proc=2, env={"MINE": "yes"}, stdout=out, stderr=err
    )
    assert [each[:5] for each in found] == [(0, 2, 0, 7.0, "yes"), (1, 2, 1, 7.0, "yes")]
    assert found[0][5] != found[1][5]  # a guardian for each rank
    assert "[0]<stdout>:rank 0 has 7.0\n" in out.getvalue(), (out.getvalue(), err.getvalue())
    assert "[1]<stdout>:rank 1 has 7.0\n" in out.getvalue()

    begins = tmp_path / "begins"

    def fail() -> None:
        import time

        import numpy as np

        import hvdlite as hvd

        hvd.init()
        hvd.allreduce(np.ones(1))
        if hvd.rank() == 1:
            begins.write_text(str(time.time()))
            raise ValueError("this is rank 1's own")
        hvd.allreduce(np.ones(1), name="never")

    with pytest.raises(RuntimeError) as raised:
        hvd_spark.run(fail, num_proc=2, stdout=out, stderr=err)
    seconds = time.time() - float(begins.read_text())
    assert "rank 1 on " in str(raised.value) and "raised ValueError: this is rank 1's own" in str(
        raised.value
    )
    assert 'raise ValueError("this is rank 1\'s own")' in str(raised.value)
    assert isinstance(raised.value.__cause__, ValueError)
    assert seconds < 5, f"the driver has heard of it after {seconds:.1f} s"

    began = time.monotonic()
    with pytest.raises(ValueError, match="needs 5 slots at the same time, and .* has 2"):
        hvd_spark.run(train, num_proc=5)
    assert time.monotonic() - began < 5


def test_the_notebook_that_came_from_horovodrunner(
    session: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """docs/guides/roads.md, HorovodRunner: the program after the change."""
    pytest.importorskip("torch", reason="torch is not installed")
    page = (Path(__file__).parents[2] / "docs" / "guides" / "roads.md").read_text()
    diff = re.search(r'^```diff title="notebook.py"\n(.*?)^```$', page, re.M | re.S)
    assert diff is not None
    program = "".join(line[1:] for line in diff[1].splitlines(True) if line[0] != "-")
    exec(compile(program, "notebook.py", "exec"), {"__name__": "__main__"})
    size, loss = re.findall(r"(\d) ranks, loss ([\d.]+)", capsys.readouterr().out)[0]
    assert size == "2" and float(loss) < 0.1


@pytest.mark.full
def test_a_rank_that_waits_without_a_collective_is_ended_when_another_fails(session: Any) -> None:
    def fail() -> None:
        import os
        import time

        if os.environ["HVDLITE_RANK"] == "1":
            raise KeyError("gone")
        time.sleep(600)  # until killed

    began = time.monotonic()
    with pytest.raises(RuntimeError, match="rank 1 on .* raised KeyError: 'gone'"):
        hvd_spark.run(fail, num_proc=2)
    assert time.monotonic() - began < 60


@pytest.mark.full
def test_a_killed_rank_is_named(session: Any) -> None:
    def die() -> None:
        import os
        import signal

        import numpy as np

        import hvdlite as hvd

        hvd.init()
        hvd.allreduce(np.ones(1))
        if hvd.rank() == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        hvd.allreduce(np.ones(1), name="never")

    with pytest.raises(RuntimeError, match="rank 0 on .* was killed by SIGKILL"):
        hvd_spark.run(die, num_proc=2)


@pytest.mark.full
def test_large_results_and_a_rank_without_one(session: Any) -> None:
    found = hvd_spark.run(lambda: os.environ["HVDLITE_RANK"] * (5 << 20), num_proc=2)
    assert [len(each) for each in found] == [5 << 20, 5 << 20] and found[1][0] == "1"
    with pytest.raises(RuntimeError, match="ended without a result"):
        hvd_spark.run(lambda: sys.exit(0), num_proc=2)


@pytest.mark.full
def test_nothing_secret_is_in_what_spark_shows(session: Any) -> None:
    def secret() -> str:
        from hvdlite.launch import secret

        found = secret.from_environment(os.environ)
        assert found is not None
        return found.hex()

    key = hvd_spark.run(secret, num_proc=2)[0]
    context = session.sparkContext
    shown = (
        str(context.getConf().getAll())
        + subprocess.run(["ps", "axeww"], capture_output=True, text=True).stdout
    )
    logs = "".join(
        path.read_text(errors="replace")
        for path in Path(os.environ["SPARK_WORKER_DIR"]).rglob("std*")
    )
    assert key not in shown and key not in logs


@pytest.mark.full
def test_the_executor_is_killed(session: Any, tmp_path: Path) -> None:
    """The last test of this session: the cluster replaces the executor."""
    killed = tmp_path / "killed"

    def die() -> None:
        import time

        import numpy as np
        from spark_session import EXECUTOR, kill_above

        import hvdlite as hvd

        hvd.init()
        hvd.allreduce(np.ones(1))
        if hvd.rank() == 0:
            killed.write_text(str(time.time()))
            kill_above(EXECUTOR)
        hvd.allreduce(np.ones(1), name="never")

    with pytest.raises(RuntimeError, match="has failed in Spark: .*(executor|gone|worker)"):
        hvd_spark.run(die, num_proc=2)
    seconds = time.time() - float(killed.read_text())
    print(f"run() has raised {seconds:.1f} s after the executor was killed")
    assert seconds < within(5)
    rank = f"{sys.executable} -m hvdlite.launch.task"
    wait_until(lambda: rank not in _processes(), 20, _processes)


def _processes() -> str:
    return subprocess.run(["ps", "ax"], capture_output=True, text=True).stdout


CTRL_C = """
import os, sys, time
sys.path.insert(0, {tests!r})
from pathlib import Path
from spark_session import classic
from hvdlite import spark

def forever():
    import os, time
    Path({here!r}, "rank" + os.environ["HVDLITE_RANK"]).write_text(str(os.getpid()))
    time.sleep(600)  # until killed

with classic(Path({here!r})):
    try:
        spark.run(forever, num_proc=2)
    except KeyboardInterrupt:
        print("interrupted", flush=True)
"""


@pytest.mark.full
@pytest.mark.watchdog(3 * SLOW)
def test_ctrl_c_cancels_and_leaves_nothing(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(CTRL_C.format(tests=str(Path(__file__).parent), here=str(tmp_path)))
    process = subprocess.Popen([sys.executable, str(program)], stdout=subprocess.PIPE, text=True)
    try:
        marks = [tmp_path / "rank0", tmp_path / "rank1"]
        wait_until(lambda: all(mark.exists() and mark.read_text() for mark in marks), 2 * SLOW)
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate()
    finally:
        process.kill()
        process.wait()
    assert "interrupted" in out
    for mark in marks:
        wait_until(lambda mark=mark: not Path("/proc", mark.read_text()).exists(), 20)


@pytest.mark.full
def test_the_example(tmp_path: Path) -> None:
    """With a Spark of its own on this machine."""
    pytest.importorskip("sklearn", reason="scikit-learn is not installed")
    example = Path(__file__).resolve().parents[2] / "examples" / "spark_digits.py"
    done = subprocess.run(
        [sys.executable, str(example)],
        capture_output=True,
        text=True,
        env={**os.environ, "PYSPARK_SUBMIT_ARGS": "--master local[2] pyspark-shell"},
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    said = [line.split("  ") for line in done.stdout.splitlines() if line.startswith("rank")]
    assert [each[0] for each in said] == ["rank 0 of 2", "rank 1 of 2"], done.stdout
    assert float(said[0][1].split()[-1]) > 0.85 and said[0][2] == said[1][2]
