"""hvd.progress() in whole jobs."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.util import find_spec

import pytest
from launched import PATIENT, WAIT_FOR, Job, ended, prefixed
from terminal import Watched

# It looks more often, and the pace is told sooner.
_HASTY = """
import os, sys, time
import numpy as np, hvdlite as hvd
from hvdlite.job import pace, progress
progress._LINE_SECONDS = progress._Lines.seconds = 0.2
progress._EXCHANGE_AFTER_SECONDS = pace._SECONDS = 0.1
"""
_WITHOUT_TQDM = "sys.modules['tqdm'] = None\n"


def lines_until(process: subprocess.Popen[bytes], pattern: str) -> list[str]:
    """What the job has said until then."""
    lines: list[str] = []
    assert process.stderr is not None
    for text in process.stderr:
        lines.append(text.decode().rstrip("\n"))
        if re.search(pattern, lines[-1]):
            return lines
    raise AssertionError(f"no {pattern!r}:\n" + "\n".join(lines))


def test_ranks_with_different_numbers_of_steps_and_rank_0_alone_prints(job: Job) -> None:
    program = (
        _HASTY
        + _WITHOUT_TQDM
        + "hvd.init()\n"
        + "steps = [30, 50, 0][hvd.rank()]\n"
        + "for step in hvd.progress(range(steps), desc='uneven'):\n"
        + "    time.sleep(0.01)  # span: the bar looks while steps take time\n"
        + "hvd.allreduce(np.ones(1), name='after')\n"
    )
    done = job.end_well("-np", "3", sys.executable, job.script(program))
    own = prefixed(done.stderr, 0, "stderr")
    assert re.fullmatch(r"uneven: 30 of 30 \(100%\), [\d.]+ step/s, 0:0\d so far.*", own[-1]), own
    assert not prefixed(done.stderr, 1, "stderr") + prefixed(done.stderr, 2, "stderr")


def test_the_slowest_rank_of_a_loop_without_collectives_is_named(job: Job) -> None:
    program = (
        _HASTY
        + _WITHOUT_TQDM
        + "hvd.init()\n"
        + "def steps():\n"
        + "    while not os.path.exists('enough'):\n"
        + "        time.sleep([0.002, 0.01, 0.1][hvd.rank()])  # span: ranks of different speed\n"
        + "        yield 1\n"
        + "for step in hvd.progress(steps(), desc='evaluation'): pass\n"
        + "before = hvd.metrics()['operations']\n"
        + "assert before == 0, before\n"
    )
    process = job.start("-np", "3", sys.executable, job.script(program))
    lines = lines_until(process, r"slowest: rank 2, \d[\d.]* step/s$")
    told = float(re.findall(r"rank 2, ([\d.]+) step/s$", lines[-1])[0])
    mine = float(re.findall(r"evaluation: \d+, ([\d.]+) step/s", lines[-1])[0])
    assert 0 < told < 11 and told < mine / 2, lines[-1]
    (job.directory / "enough").touch()
    ended(process)


def test_in_a_loop_with_collectives_the_rank_that_the_others_wait_for_is_named(job: Job) -> None:
    program = (
        _HASTY
        + _WITHOUT_TQDM
        + "hvd.init()\n"
        + "for step in hvd.progress(range(1000000)):\n"
        + "    time.sleep(0.05 * hvd.rank())  # span: others wait for rank 1\n"
        + "    go_on = np.array([not os.path.exists('enough')], np.float64)\n"
        + "    if not hvd.broadcast(go_on, 0, name='go on')[0]: break\n"
    )
    process = job.start("-np", "2", sys.executable, job.script(program))
    lines_until(process, r"\d\d% waits for rank 1$")
    (job.directory / "enough").touch()
    ended(process)


def test_a_failure_in_the_loop_is_the_jobs_failure(job: Job) -> None:
    program = (
        _HASTY
        + _WITHOUT_TQDM
        + "import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n"  # its own error ends it
        + "hvd.init()\n"
        + "for step in hvd.progress(range(10)):\n"
        + "    if step == 3 and hvd.rank() == 1: raise ValueError('bad')\n"
        + "    hvd.allreduce(np.ones(1), name='x')\n"
    )
    done = job.run("-np", "2", "--grace-seconds", PATIENT, sys.executable, job.script(program))
    assert done.returncode == 1
    assert b"rank 1 on localhost exited with code 1: ValueError: bad at script.py:" in done.stderr
    # The failure may reach rank 0 before the end of the third operation does.
    assert re.search(rb"\[0\]<stderr>:[23] of 10 \([23]0%\)", done.stderr), done.stderr


@pytest.mark.skipif(find_spec("tqdm") is None, reason="tqdm is not installed: pip install tqdm")
def test_one_bar_on_the_terminal_of_the_launcher(job: Job) -> None:
    program = (
        WAIT_FOR
        + _HASTY
        + "hvd.init()\n"
        + "loop = hvd.progress(range(40), desc='epoch 1')\n"
        + "for step in loop:\n"
        + "    loop.set_postfix(loss=0.5)\n"
        + "    time.sleep(0.03)  # span: bars are drawn twice a second\n"
        + "    if step == 30: wait_for('seen')\n"
    )
    shown = Watched(job, "-np", "2", sys.executable, job.script(program))
    seen = shown.watch(r"epoch 1:  +\d\d%\|.*\| \d+/40 .*loss=0\.5")
    (job.directory / "seen").touch()
    end = shown.watch()
    assert shown.process.returncode == 0
    assert "[1]" not in seen + end
    assert re.search(r"epoch 1: 100%\|.*\| 40/40 ", end) and end.count("epoch 1") == 1, end


@pytest.mark.skipif(find_spec("tqdm") is None, reason="tqdm is not installed: pip install tqdm")
def test_in_a_log_hvdliterun_thins_the_bar(job: Job) -> None:
    program = (
        _HASTY
        + "hvd.init()\nfor step in hvd.progress(range(200)): time.sleep(0.005)  # span: a loop\n"
    )
    done = job.end_well("-np", "1", sys.executable, job.script(program))
    lines = prefixed(done.stderr, 0, "stderr")
    assert len(lines) <= 3 and "200/200" in lines[-1], lines


def test_stderr_in_a_file_gets_lines(job: Job) -> None:
    script = job.script(_HASTY + "hvd.init()\nfor step in hvd.progress(range(5)): pass\n")
    job.end_well("-np", "1", "sh", "-c", f"{sys.executable} {script} 2> err")
    assert (job.directory / "err").read_text().startswith("5 of 5 (100%)")
