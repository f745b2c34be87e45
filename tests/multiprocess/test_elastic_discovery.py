"""Scripts that fail while an elastic job runs: row 19 of the design's table of faults."""

from __future__ import annotations

import os
import signal

import pytest
from elastic_faults import PYTHON, QUICKLY, generations, pid, program
from elastic_hosts import HostsJob
from launched import Job, ended
from waiting import wait_until

# It notes each of its runs, before it does what the test has asked for.
SCRIPT = """
echo run >> runs
case $(cat mode) in
fails) echo other:7; exit 3;;
hangs) exec sleep 1000;;
rubbish) echo "Traceback (most recent call last):";;
floods) exec yes localhost:3;;
repeats) yes localhost:3 | head -n 1000000;;
*) echo localhost:3;;
esac
"""
SAID = {
    "fails": "it has ended with status 3",
    "hangs": "it was killed, as it ran for more than 2 s",
    "rubbish": "it has printed 'Traceback (most recent call last):'; expected `host` or "
    "`host:slots`",
    "floods": "it has printed more than 65536 bytes",
    "repeats": "it has printed more than 65536 bytes",
}
FAILED = "the host discovery script has failed: "


# A service that the script starts keeps the script's output open, in a session of its own.
LEAVES = """
if ! [ -e service ]; then
    setsid sh -c 'echo $$ > new; mv new service; exec sleep 1000' 2> /dev/null &
fi
until [ -e service ]; do sleep 0.01; done
cat hosts
"""


def test_a_script_may_leave_a_process_behind(job: Job) -> None:
    (job.directory / "discover").write_text(LEAVES)
    job.name_hosts("localhost:2")
    script = program(job, done="hvd.size() == 3")
    flags = ("-np", "2", "--min-np", "1", *QUICKLY, "--host-discovery-script", "sh discover")
    process = job.start(*flags, PYTHON, script)
    job.wait_for_files(["trains.1.2.1"])
    job.name_hosts("localhost:3")
    out, _ = ended(process)
    assert out.count(b" of 3, step ") == 3
    assert job.pids() == [pid(job, "service")]
    os.kill(pid(job, "service"), signal.SIGKILL)


@pytest.mark.costly
@pytest.mark.parametrize("mode", list(SAID))
def test_a_script_that_fails_later_is_told_once_and_its_last_answer_stays(
    job: Job, mode: str
) -> None:
    limit = "host_discovery.LIMIT_SECONDS = 2.0" if mode == "hangs" else ""
    script = program(job, done="hvd.size() == 3 and hvd.elastic.generation() > 1", launcher=limit)
    (job.directory / "discover").write_text(SCRIPT)
    (job.directory / "mode").write_text("")
    runs = job.directory / "runs"
    flags = ("-np", "3", "--min-np", "1", *QUICKLY, "--host-discovery-script", "sh discover")
    process = job.start(*flags, PYTHON, script)
    job.wait_for_files(["trains.1.3.1", "trains.1.3.2", "trains.1.3.3"])

    (job.directory / "mode.new").write_text(mode)
    os.replace(job.directory / "mode.new", job.directory / "mode")
    line = HostsJob.wait_for_line(process, FAILED)
    assert line == f"hvdliterun: {FAILED}{SAID[mode]}. Its last answer stays."
    told = runs.stat().st_size
    wait_until(lambda: runs.stat().st_size > told + 2 * len("run\n"))  # it has failed again
    os.kill(pid(job, "trains.1.3.2"), signal.SIGKILL)
    out, err = ended(process)
    assert out.count(b" of 3, step ") == 3, "the slot was filled again"
    assert FAILED not in err.decode(), "it was told twice"
    assert generations(job, 1) == [(1, 3), (2, 2), (3, 3)]
    assert job.pids() == []
