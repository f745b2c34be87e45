"""Whatever of a job is killed, nothing of it stays. Ranks are shell or Python scripts without the
core."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from launched import MARK, PATIENT, READY, Job, ended, last_line, prefixed
from waiting import wait_until

PYTHON = sys.executable


def _guardian(job: Job, launcher: int) -> int:
    (pid,) = (p for p in job.pids() if b"guardian.py" in Path(f"/proc/{p}/cmdline").read_bytes())
    assert pid != launcher
    return pid


def _ranks(job: Job, process: subprocess.Popen[bytes]) -> list[int]:
    return sorted(set(job.pids()) - {process.pid, _guardian(job, process.pid)})


NO_ANSWER = (
    "The guardian (localhost) did not answer: hvdliterun itself has killed the ranks that were "
    "left."
)

# Six processes.
FAMILY = (
    "trap '' TERM HUP INT; timeout 600 sleep 601 & setsid sleep 602 & (setsid sleep 603 &); "
    f"{PYTHON} -c '{READY}'; true"
)


def _wait_for_two_families(job: Job) -> None:
    """Until all of them are there, with the launcher and the guardian: those in the background
    start when they can."""
    job.wait_ready(2)
    wait_until(lambda: len(job.pids()) == 14, said=job.pids)


def test_kill_9_of_the_launcher_takes_grandchildren_along_at_once(job: Job) -> None:
    # Not after a grace period.
    process = job.start("-np", "2", "--grace-seconds", PATIENT, "bash", "-c", FAMILY)
    _wait_for_two_families(job)
    process.kill()
    assert job.wait_until_gone(3.0) == []


def test_kill_9_of_the_launchers_process_group_does_so_too(job: Job) -> None:
    process = subprocess.Popen(
        [
            PYTHON,
            *"-m hvdlite.launch -np 2 --grace-seconds".split(),
            PATIENT,
            "bash",
            "-c",
            FAMILY,
        ],
        cwd=job.directory,
        env=job.environment(),
        start_new_session=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    job.started.append(process)
    _wait_for_two_families(job)
    os.killpg(process.pid, signal.SIGKILL)
    assert job.wait_until_gone(3.0) == []


# What a launcher does at these moments of a start is replaced so that it kills itself there.
MOMENTS = {
    "the guardian runs": "popen = local.subprocess.Popen\nlocal.subprocess.Popen = lambda *a, **k: "
    "(popen(*a, **k), die())\n",
    "half of the job is sent": (
        "class Half:\n"
        "    def __init__(self, pipe): self.pipe = pipe\n"
        "    def write(self, data): self.pipe.write(data[: len(data) // 2]); self.pipe.flush(); "
        "die()\n"
        "popen = local.subprocess.Popen\n"
        "def start(*a, **k):\n    child = popen(*a, **k); child.stdin = Half(child.stdin); return "
        "child\n"
        "local.subprocess.Popen = start\n"
    ),
    "all of the job is sent": "start = local.start\nlocal.start = lambda *a, **k: (start(*a, **k), "
    "die())\n",
    "the first rank has started": "parse = local.parse\nlocal.parse = lambda line: (parse(line), "
    "die())\n",
}


@pytest.mark.parametrize("moment", MOMENTS)
def test_kill_9_of_the_launcher_while_it_starts_leaves_nothing(job: Job, moment: str) -> None:
    launcher = (
        "import os, sys\nfrom hvdlite.launch import cli\nfrom hvdlite.launch.spawn import local\n"
        "def die(): os.kill(os.getpid(), 9)\n"
    )
    job.launcher = [job.script(launcher + MOMENTS[moment] + "sys.exit(cli.main())\n")]
    done = job.run("-np", "4", "sleep", "600")
    assert done.returncode == -signal.SIGKILL
    assert job.wait_until_gone(3.0) == []


def test_kill_9_of_the_guardian_ends_the_job_with_an_error(job: Job) -> None:
    process = job.start("-np", "2", "bash", "-c", f"{PYTHON} {job.script(READY)}; true")
    job.wait_ready(2)
    os.kill(_guardian(job, process.pid), signal.SIGKILL)
    _, err = process.communicate()
    assert process.returncode != 0
    assert "the guardian of the ranks was killed" in last_line(err)
    assert job.pids() == []


def test_kill_9_of_the_guardian_takes_along_what_has_left_the_ranks_sessions(job: Job) -> None:
    process = job.start("-np", "2", "bash", "-c", FAMILY)
    _wait_for_two_families(job)
    os.kill(_guardian(job, process.pid), signal.SIGKILL)
    process.communicate()
    assert process.returncode != 0
    assert job.pids() == []


def test_a_job_whose_guardian_is_stopped_ends_as_others_do(job: Job) -> None:
    script = job.script(
        "import signal, sys\nsignal.signal(signal.SIGTERM, lambda *_: sys.exit(print('saved')))\n"
        + READY
    )
    process = job.start("-np", "2", "--grace-seconds", PATIENT, PYTHON, script)
    job.wait_ready(2)
    os.kill(_guardian(job, process.pid), signal.SIGSTOP)
    process.send_signal(signal.SIGINT)
    out, err = ended(process, 130)
    assert prefixed(out, 0) == prefixed(out, 1) == ["saved"]
    assert last_line(err) == "hvdliterun: ended by SIGINT; all ranks were ended."
    assert job.pids() == []


def test_the_end_of_a_rank_is_noticed_though_the_guardian_is_stopped(job: Job) -> None:
    process = job.start("-np", "2", PYTHON, job.script(READY + "\n"))
    job.wait_ready(2)
    guardian = _guardian(job, process.pid)
    victim = _ranks(job, process)[0]
    os.kill(guardian, signal.SIGSTOP)
    os.kill(victim, signal.SIGKILL)
    _, err = ended(process, 137)
    assert "was killed by SIGKILL" in last_line(err)
    assert job.pids() == []


def test_a_guardian_that_stays_frozen_holds_nothing_up(job: Job) -> None:
    # As in a cgroup that is frozen: SIGCONT does not help.
    job.launcher = [
        job.script(
            "import sys\nfrom hvdlite.launch import cli\nfrom hvdlite.launch.spawn import "
            "guardian, local\n"
            "local.LocalRanks.wake = lambda self: None\nguardian.KILL_SECONDS = 3\n"
            "sys.exit(cli.main())\n",
            "launcher.py",
        )
    ]
    process = job.start("-np", "2", "--grace-seconds", PATIENT, "bash", "-c", FAMILY)
    _wait_for_two_families(job)
    os.kill(_guardian(job, process.pid), signal.SIGSTOP)
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate()
    assert process.returncode in (130, 143)  # whichever it saw first
    assert last_line(err).endswith("all ranks were ended. " + NO_ANSWER)
    assert job.pids() == []


def test_kill_9_of_guardian_and_launcher_still_ends_the_ranks(job: Job) -> None:
    process = job.start("-np", "2", PYTHON, job.script(READY))
    job.wait_ready(2)
    guardian = _guardian(job, process.pid)
    process.send_signal(signal.SIGSTOP)  # so that it cannot help
    os.kill(guardian, signal.SIGKILL)
    wait_until(lambda: job.pids() == [process.pid])
    process.kill()


def test_kill_9_of_a_launcher_whose_pipe_a_stray_child_holds(job: Job) -> None:
    # As a notebook's forked worker does: it inherits the launcher's end of the guardian's pipe.
    script = job.script(
        "import os, signal, sys\n"
        "from hvdlite.launch import hosts, plan\n"
        "from hvdlite.launch.spawn import local\n"
        "slots = plan.assign(hosts.parse_hosts('localhost:2'))\n"
        "own = {s.rank: plan.rank_environment(s, False) for s in slots}\n"
        f"marked = {{**os.environ, {MARK!r}: {job.mark!r}}}\n"
        f"ranks = local.start([sys.executable, '-c', {READY!r}], marked, own)\n"
        "stray = os.fork()\n"
        "if stray == 0:\n    signal.pause(); os._exit(0)\n"
        "open('stray.new', 'w').write(str(stray)); os.rename('stray.new', 'stray')\n"
        "signal.pause()\n"
    )
    environment = job.environment()
    del environment[MARK]
    process = subprocess.Popen([PYTHON, script], cwd=job.directory, env=environment)
    job.started.append(process)
    job.wait_for_files(["ready.0", "ready.1", "stray"])
    stray = int((job.directory / "stray").read_text())
    try:
        process.kill()
        assert job.wait_until_gone(3.0) == []
    finally:
        os.kill(stray, signal.SIGKILL)  # it was there until now


def test_a_storm_of_signals_does_not_take_the_last_line_away(job: Job) -> None:
    process = job.start("-np", "2", PYTHON, job.script(READY))
    job.wait_ready(2)
    while process.poll() is None:
        process.send_signal(signal.SIGTERM)
        time.sleep(0.002)  # poll
    _, err = ended(process, 143)
    assert last_line(err) == "hvdliterun: ended by SIGTERM; all ranks were ended."


def test_a_stopped_rank_is_ended_too(job: Job) -> None:
    process = job.start("-np", "2", "--grace-seconds", PATIENT, PYTHON, job.script(READY))
    job.wait_ready(2)
    for pid in _ranks(job, process):
        os.kill(pid, signal.SIGSTOP)
    process.send_signal(signal.SIGTERM)
    process.communicate()
