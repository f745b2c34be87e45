"""`hvdliterun --report`: the page of a real job."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from launched import Job, ended, last_line
from waiting import wait_until

# A rank that is late in each step, until the test has seen enough.
SLOW = """
import os, time, numpy as np, hvdlite as hvd
hvd.init()
with open(f"pid.{hvd.rank()}", "w") as file: file.write(str(os.getpid()))
gradients = [np.ones(1000, np.float32) for _ in range(8)]
while True:
    if hvd.rank() == 1: time.sleep(0.02)  # span: this rank is late
    handles = [hvd.allreduce_async(g, name=f"<script>{i}") for i, g in enumerate(gradients)]
    for handle in handles: hvd.synchronize(handle)
    enough = os.path.exists("enough") and hvd.rank() == 0
    if hvd.broadcast(np.array([enough]), 0, name="enough")[0]: break
"""
FAILS = SLOW.replace(
    "    if hvd.broadcast",
    "    if enough: raise ValueError('no <b>luck</b>')\n    if hvd.broadcast",
)
# No time limit of a real job is shortened: the launcher looks more often.
HASTE = """
import sys
from hvdlite.launch import cli
from hvdlite.launch.monitor import report, view
view._READ_SECONDS = report.ReportSampler.seconds = 0.1
report._SECONDS_OF_A_PAGE, report._SHARE_OF_A_CORE = 0.3, 1.0
sys.exit(cli.main())
"""


@pytest.fixture
def hasty(job: Job) -> Job:
    job.launcher = [job.script(HASTE, "launcher.py")]
    return job


def text_of(page: Path) -> str:
    text = re.sub(r"<style>.*?</style>|<[^>]*>", " ", page.read_text(), flags=re.S)
    return text.replace("\u00a0", " ")


def test_the_report_of_a_job_with_a_slow_rank_names_it(hasty: Job) -> None:
    page = hasty.directory / "run.html"
    program = hasty.script(SLOW, "train.py")
    process = hasty.start("-np", "2", "--report", "run.html", sys.executable, program, "--token=x")
    # The job is long enough for a sentence, and its page is there while it runs.
    wait_until(
        lambda: page.exists() and "operations wait for rank 1" in page.read_text(), 40,
        lambda: page.exists() and text_of(page),
    )  # fmt: skip
    assert "still running" in page.read_text()
    (hasty.directory / "enough").touch()
    _, err = ended(process)
    assert err == b"", "it has nothing to say"
    assert page.stat().st_mode & 0o777 == 0o600
    text = page.read_text()
    assert "ended well" in text and "train.py …" in text and "token" not in text
    assert re.search(r"\d\d % of the time operations wait for rank 1\.", text_of(page))
    assert "allreduce.&lt;script&gt;3" in text or "&lt;script&gt;3" in text
    assert "<script" not in text
    for section in ("Step time", "Waiting for other ranks", "Slowest tensors", "Versions"):
        assert f"<h2>{section}</h2>" in text, section
    assert "shared memory" in text and "numpy" in text
    assert [name for name in os.listdir(hasty.directory) if "new" in name] == []


def test_the_report_of_a_job_that_fails_says_why(hasty: Job) -> None:
    program = hasty.script(FAILS, "train.py")
    process = hasty.start("-np", "2", "--report", "run.html", sys.executable, program)
    page = hasty.directory / "run.html"
    wait_until(lambda: page.exists() and "Slowest tensors" in page.read_text())
    (hasty.directory / "enough").touch()
    _, err = process.communicate()
    assert process.returncode == 1
    said = last_line(err)
    assert "no <b>luck</b>" in said
    text = page.read_text()
    assert "failed with status 1" in text and "no &lt;b&gt;luck&lt;/b&gt;" in text


@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)], ids=["SIGTERM", "SIGINT"]
)
def test_the_report_of_a_job_that_is_told_to_end(hasty: Job, number: int, status: int) -> None:
    program = hasty.script(SLOW, "train.py")
    process = hasty.start("-np", "2", "--report", "run.html", sys.executable, program)
    page = hasty.directory / "run.html"
    wait_until(lambda: page.exists() and "Slowest tensors" in page.read_text())
    process.send_signal(number)
    process.communicate()
    assert process.returncode == status
    assert f"failed with status {status}" in page.read_text()


@pytest.mark.parametrize("whose", ["rank", "launcher"])
def test_the_report_survives_whatever_is_killed(hasty: Job, whose: str) -> None:
    page = hasty.directory / "run.html"
    program = hasty.script(SLOW, "train.py")
    process = hasty.start("-np", "2", "--report", "run.html", sys.executable, program)
    wait_until(lambda: page.exists() and "Slowest tensors" in page.read_text())
    rank = int((hasty.directory / "pid.1").read_text())
    os.kill(rank if whose == "rank" else process.pid, signal.SIGKILL)
    process.communicate()
    text = page.read_text()
    assert "Slowest tensors" in text
    assert ("rank 1 on localhost was killed by SIGKILL" in text) == (whose == "rank")
    assert ("still running" in text) == (whose == "launcher")


@pytest.mark.parametrize(
    ("path", "why"),
    [("/no/such/folder/x.html", "No such file or directory"), ("/dev/full", "No space left")],
)
def test_a_report_that_cannot_be_written_is_told_once_and_the_job_goes_on(
    hasty: Job, path: str, why: str
) -> None:
    (hasty.directory / "enough").touch()
    program = hasty.script(SLOW, "train.py")
    done = hasty.end_well("-np", "2", "--report", path, sys.executable, program)
    sentence = f"hvdliterun: there is no report, or an old one: cannot write {path}: {why}"
    assert done.stderr.decode().count(sentence) == 1, done.stderr


# One of three ranks dies in a step; the others go on, and end when a new one has come.
ELASTIC = """
import os, signal, numpy as np, hvdlite as hvd
MEMBER = int(os.environ["HVDLITE_MEMBER"])
hvd.init()
state = hvd.elastic.ObjectState(hvd.broadcast_object, hvd.rank, step=0)

@hvd.elastic.run
def train(state):
    enough = False
    while not enough:
        if MEMBER == 2 and os.path.exists("seen"): os.kill(os.getpid(), signal.SIGKILL)
        here = np.array([float(os.path.exists("enough"))])
        enough = bool(hvd.allreduce(here, name="enough", op=hvd.Min)[0]) and hvd.size() == 3
        state.step += 1
        state.commit()

train(state)
"""


def test_the_report_of_an_elastic_job_tells_of_its_changes(hasty: Job) -> None:
    program = hasty.script(ELASTIC, "train.py")
    process = hasty.start(
        "-np", "3", "--min-np", "1", "--report", "run.html", sys.executable, program
    )
    page = hasty.directory / "run.html"
    wait_until(lambda: page.exists() and "3 ranks" in text_of(page), 40)
    (hasty.directory / "seen").touch()
    wait_until(
        lambda: page.exists() and "3 → 2" in page.read_text() and "2 → 3" in page.read_text(), 40,
        lambda: page.exists() and text_of(page),
    )  # fmt: skip
    (hasty.directory / "enough").touch()
    ended(process)
    text = text_of(page)
    assert "World changes and failures" in text and "ended well" in text
    assert "member 2 on localhost was killed by SIGKILL" in text, text
    assert "→ 0" not in text and "hosts," not in text


@pytest.mark.parametrize("command", [["true"], ["/no/such/program"]])
def test_a_job_without_a_collective_has_a_page(job: Job, command: list[str]) -> None:
    done = job.run("-np", "2", "--report", "run.html", *command)
    text = (job.directory / "run.html").read_text()
    assert "The job was too short to say what would make it faster." in text
    assert ("ended well" in text) == (done.returncode == 0)
    assert done.returncode == 0 or "cannot start" in text


def test_a_job_without_a_report_keeps_none(job: Job) -> None:
    """Not even the modules for it are loaded, in launcher or ranks, nor is the rank asked."""
    program = job.script(
        "import os, sys, hvdlite as hvd\nhvd.init()\n"
        "print([m for m in sys.modules if m.startswith('hvdlite.observe.report')])\n"
        "print([n for n in os.environ if 'DETAILS' in n])"
    )
    launcher = job.script(
        "import sys\nfrom hvdlite.launch import cli\nstatus = cli.main()\n"
        "sys.exit(str([m for m in sys.modules if m.startswith('hvdlite.observe.report')]))",
        "launcher.py",
    )
    job.launcher = [launcher]
    done = job.run("-np", "1", sys.executable, program)
    assert done.stdout == b"[0]<stdout>:[]\n[0]<stdout>:[]\n"
    assert done.stderr.endswith(b"[]\n"), done.stderr


def test_the_file_of_metrics_makes_the_same_page(hasty: Job) -> None:
    (hasty.directory / "enough").touch()
    program = hasty.script(SLOW, "train.py")
    hasty.end_well("-np", "2", "--metrics-file", "run.jsonl", sys.executable, program)
    last = json.loads((hasty.directory / "run.jsonl").read_text().splitlines()[-1])
    assert last["details"]["versions"]["numpy"] and last["began"] <= last["time"]
    names = {tensor["name"] for tensor in last["details"]["tensors"]}
    assert "<script>3" in " ".join(names)
    assert set(last["details"]["ways"]) == {"shm"}
    assert last["details"]["dtypes"].keys() >= {"float32"}
    done = hasty.spawn(
        [sys.executable, "-m", "hvdlite.tools", "report", "run.jsonl"], subprocess.PIPE
    )
    ended(done)
    assert "Slowest tensors" in (hasty.directory / "run.html").read_text()
