"""`hvdliterun` where something is closed, full or forbidden: one line that says so, and never a
traceback of ours."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest
from launched import Job
from stillness import wait_until_still


def _shell(job: Job, text: str) -> subprocess.CompletedProcess[str]:
    """`$RUN` is hvdliterun."""
    run = f"{sys.executable} -m hvdlite.launch"
    return job.command("bash", "-c", text, RUN=run)


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- 2>&-", ">&- 2>&-", "<&- >&- 2>&-"])
def test_closed_standard_streams_are_only_silent(job: Job, closed: str) -> None:
    """Their numbers must not go to a pipe or a socket, which output would then be written to."""
    done = _shell(job, f"$RUN -np 2 sh -c 'echo out; echo err >&2; exit 3' {closed}")
    assert done.returncode == 3, done
    # The first to fail ends the other one, which may have said nothing yet.
    assert ("]<stdout>:out" in done.stdout) is (" >&-" not in f" {closed}"), done
    assert ("rank " in done.stderr) is ("2>&-" not in closed), done


def test_too_few_descriptors_are_named_with_the_way_out(job: Job) -> None:
    done = _shell(job, "ulimit -n 64; $RUN -np 40 true")
    assert done.returncode == 1
    assert done.stderr.endswith(
        "hvdliterun: too many open files: 64 are allowed here, and every rank needs 4. `ulimit -n` "
        "raises that.\n"
    )


@pytest.mark.skipif(
    os.geteuid() != 0, reason="only root can become a user who has no other process"
)
def test_too_few_processes_are_named_with_the_way_out(job: Job) -> None:
    # Nobody else has this number. The system's own Python is one that it may run.
    who = "setpriv --reuid 64123 --regid 64123 --clear-groups --bounding-set=-all --inh-caps=-all"
    if _shell(job, f"{who} /usr/bin/python3 -c 'import hvdlite.launch.direct'").returncode != 0:
        pytest.skip("another user cannot read this checkout, or there is no /usr/bin/python3")
    done = _shell(job, f"{who} prlimit --nproc=7 /usr/bin/python3 -m hvdlite.launch -np 8 sleep 20")
    assert done.returncode == 126
    assert "Traceback" not in done.stderr and done.stderr.endswith("(`ulimit -u`).\n"), done.stderr


def test_a_path_that_cannot_be_opened_is_named(job: Job) -> None:
    for flag in ("--hostfile", "--config-file"):
        done = job.run("-np", "1", flag, "nowhere", "true")
        assert done.returncode == 2
        assert done.stderr == b"hvdliterun: cannot read nowhere: No such file or directory.\n"
    (job.directory / "file").touch()
    done = job.run("-np", "1", "--output-filename", "file", "true")
    assert done.returncode == 1
    assert done.stderr == b"hvdliterun: cannot open file/rank.0: Not a directory.\n"


def test_an_empty_command_is_none(job: Job) -> None:
    done = job.run("-np", "1", "")
    assert done.returncode == 2 and done.stderr.startswith(b"hvdliterun: no command given"), (
        done.stderr
    )


def test_an_interrupt_while_the_launcher_still_starts_is_one_line(job: Job) -> None:
    # It comes while the file is read, as it may while modules are.
    os.mkfifo(job.directory / "hosts")
    process = job.start("--hostfile", "hosts", "-np", "1", "true")
    writer = os.open(job.directory / "hosts", os.O_WRONLY)
    wait_until_still(process.pid)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate()
    os.close(writer)
    assert (process.returncode, err) == (130, b"hvdliterun: ended by SIGINT.\n")


def test_long_last_words_end_visibly(job: Job) -> None:
    done = job.run("-np", "1", "sh", "-c", f"echo ValueError: {'x' * 999} >&2; exit 1")
    last = done.stderr.decode().splitlines()[-1]
    assert last.endswith("xxx ...") and len(last) < 700, last


def test_what_a_stuck_ssh_has_started_goes_with_it(job: Job) -> None:
    """A ProxyCommand that never connects, say, or what a wrapper of ssh runs."""
    ssh = job.directory / "ssh"
    ssh.write_text("#!/bin/sh\nsleep 600\n")
    ssh.chmod(0o755)
    done = job.run(
        *"-H elsewhere:1 --start-timeout 1 true".split(),
        PATH=f"{job.directory}:{os.environ['PATH']}",
    )
    assert (done.returncode, done.stderr) == (
        1,
        b"hvdliterun: host elsewhere: still connecting after 1 s (--start-timeout)\n",
    )
    assert not job.wait_until_gone(3)
