"""What comes out of `hvdliterun`, and what it costs. Ranks are shell or Python scripts without the
core."""

from __future__ import annotations

import json
import os
import re
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

from launched import READY, Job, ended, last_line, prefixed, went_to_sleep
from terminal import Watched

from hvdlite.launch.spawn import guardian

PYTHON = sys.executable


def test_eight_ranks_print_in_order_and_without_mixing_lines(job: Job) -> None:
    script = job.script(
        "import os, sys\n"
        "rank = os.environ['HVDLITE_RANK']\n"
        "for i in range(0, 2000, 10):\n"
        # Whole lines at once: of a rank that is held up in the middle of one that much is shown.
        "    lines = ''.join(f'{rank} {j} ' + 'x' * (j % 97) + '\\n' for j in range(i, i + 10))\n"
        "    os.write(1, lines.encode())\n"
        "    sys.stderr.write(f'{rank} {i}\\n')\n"
    )
    done = job.end_well("-np", "8", PYTHON, script)
    assert len(done.stdout.splitlines()) == 16000
    for rank in range(8):
        assert prefixed(done.stdout, rank) == [f"{rank} {i} " + "x" * (i % 97) for i in range(2000)]
        assert prefixed(done.stderr, rank, "stderr") == [f"{rank} {i}" for i in range(0, 2000, 10)]


def test_binary_output_comes_out_unchanged(job: Job) -> None:
    # Carriage returns are a progress bar's.
    script = job.script(
        "import os, sys; os.write(1, bytes(b for b in range(256) if b != 13) * 3 + b'end')"
    )
    done = job.run("-np", "1", "--output-filename", "logs", PYTHON, script)
    expected = bytes(b for b in range(256) if b != 13) * 3 + b"end"
    assert done.stdout.replace(b"[0]<stdout>:", b"") == expected
    assert (job.directory / "logs" / "rank.0" / "stdout").read_bytes() == expected


def test_an_unfinished_line_is_seen_while_the_rank_still_runs(job: Job) -> None:
    process = job.start("-np", "1", "sh", "-c", "printf 'how far: '; sleep 600")
    assert process.stdout is not None
    expected = b"[0]<stdout>:how far: "
    assert os.read(process.stdout.fileno(), 100) == expected
    process.send_signal(signal.SIGTERM)
    process.communicate()


def test_copies_and_timestamps(job: Job) -> None:
    command = "echo out $HVDLITE_RANK; echo err >&2"
    done = job.end_well(
        "-np", "2", "--output-filename", "d/e", "-prefix-timestamp", "sh", "-c", command
    )
    pattern = rb"\w{3} \w{3} [ \d]\d \d\d:\d\d:\d\d \d{4}\[[01]\]<stdout>:out [01]"
    assert all(re.fullmatch(pattern, line) for line in done.stdout.splitlines())
    for rank in range(2):
        assert (job.directory / f"d/e/rank.{rank}/stdout").read_text() == f"out {rank}\n"
        assert (job.directory / f"d/e/rank.{rank}/stderr").read_text() == "err\n"


def test_a_reader_that_pauses_does_not_stop_the_ranks(job: Job) -> None:
    # 8 MB fit into the backlog: the rank goes on although nobody has read a byte.
    process = job.start(
        "-np", "1", "sh", "-c", "yes 0123456789abcde | head -c 8000000; touch finished"
    )
    job.wait_for_files(["finished"])
    assert process.stdout is not None
    out, _ = ended(process)
    assert out.replace(b"[0]<stdout>:", b"") == b"0123456789abcde\n" * 500_000


def test_closed_output_does_not_stop_the_job(job: Job) -> None:
    process = job.start("-np", "1", "sh", "-c", "yes | head -c 300000; touch finished; exit 3")
    assert process.stdout is not None
    process.stdout.close()
    process.stdout = None
    process.wait()
    assert process.returncode == 3
    assert (job.directory / "finished").exists()


def test_in_a_file_a_progress_bar_is_a_few_lines(job: Job) -> None:
    script = job.script(
        "import sys\n"
        "for percent in range(101): sys.stderr.write(f'\\rEpoch {percent}%'); sys.stderr.flush()\n"
        "sys.stderr.write('\\ndone\\n')\n"
    )
    done = job.run("-np", "1", PYTHON, script)
    lines = prefixed(done.stderr, 0, "stderr")
    assert lines[-2:] == ["Epoch 100%", "done"] and len(lines) <= 4, done.stderr


def test_on_a_terminal_a_progress_bar_is_one_line(job: Job) -> None:
    script = job.script(
        "import sys\n"
        "for percent in range(101): sys.stderr.write(f'\\rEpoch {percent}%'); sys.stderr.flush()\n"
        "sys.stderr.write('\\ndone\\n')\n"
    )
    seen = Watched(job, "-np", "1", PYTHON, script).watch()
    assert seen.splitlines() == ["[0]<stderr>:Epoch 100%", "[0]<stderr>:done"]


def test_collapsed_lines_name_all_that_have_said_them(job: Job) -> None:
    patient = (
        "import sys\nfrom hvdlite.launch import cli, collapse\ncollapse.MOMENT_SECONDS = "
        "600\nsys.exit(cli.main())\n"
    )
    job.launcher = [job.script(patient, "launcher.py")]
    done = job.end_well(
        "-np", "3", "--collapse", "sh", "-c", "echo same; echo rank $HVDLITE_RANK; echo same >&2"
    )
    first, *others = done.stdout.decode().splitlines()
    assert first == "[0-2]<stdout>:same"
    assert sorted(others) == [f"[{rank}]<stdout>:rank {rank}" for rank in range(3)]
    assert [line for line in done.stderr.splitlines() if not line.startswith(b"hvdliterun: ")] == [
        b"[0-2]<stderr>:same"
    ]


def test_output_that_cannot_be_written_is_no_success(job: Job) -> None:
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [PYTHON, "-m", "hvdlite.launch", "-np", "1", "echo", "hello"],
            cwd=job.directory,
            env=job.environment(),
            stdout=full,
            stderr=subprocess.PIPE,
        )
    assert done.returncode == 1
    assert last_line(done.stderr) == (
        "hvdliterun: the end of the ranks' stdout is lost: No space left on device."
    )


def test_output_that_nobody_reads_is_no_success(job: Job) -> None:
    process = job.start("-np", "1", "sh", "-c", "yes | head -c 300000; touch finished")
    assert process.stdout is not None and process.stderr is not None
    process.stdout.close()
    process.stdout = None
    err = process.stderr.read()
    assert process.wait() == 1
    assert last_line(err) == (
        "hvdliterun: the end of the ranks' stdout is lost: its reader has closed it."
    )


def test_a_job_whose_ranks_never_meet_ends_with_a_line_that_says_so(job: Job) -> None:
    alone = job.end_well("-np", "2", PYTHON, "-c", "print(1)")
    assert [prefixed(alone.stdout, rank) for rank in range(2)] == [["1"], ["1"]]
    assert alone.stderr.decode() == (
        "hvdliterun: no rank has called hvd.init(), so 2 programs have run independently. "
        "--torch-distributed=hvdlite is for programs that read torchrun's variables.\n"
    )
    program = "import hvdlite as hvd; hvd.init(); print(hvd.size())"
    together = job.run("-np", "2", PYTHON, "-c", program)
    assert (together.returncode, together.stderr) == (0, b"")
    assert [prefixed(together.stdout, rank) for rank in range(2)] == [["2"], ["2"]]


# --- what it costs: counted, because seconds depend on what else a machine does.
# benchmarks/starting measures them.


def test_much_output_costs_little_time_of_the_processor(job: Job) -> None:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = job.run("-np", "2", "sh", "-c", "yes 0123456789abcdef0123456789abcde | head -c 16000000")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    # One a line. Where a rank is held up in the middle of one, the other begins a line of its own
    # there.
    assert done.stdout.count(b"f") == 1_000_000
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 6  # 0.7


COUNTED = """
import json, sys
calls = 0
def count(frame, event, argument):
    global calls
    calls += event == "call"
sys.setprofile(count)
from hvdlite.launch import cli
status = cli.main(["-np", "2", "true"])
sys.setprofile(None)
print(json.dumps([status, calls, list(sys.modules)]))
"""
HEAVY = {
    "asyncio",
    "concurrent.futures",
    "ctypes",
    "email",
    "http",
    "multiprocessing",
    "numpy",
    "ssl",
    "unittest",
    "xml",
}


def test_a_start_calls_little_and_imports_little(job: Job) -> None:
    done = subprocess.run(
        [PYTHON, "-c", COUNTED],
        cwd=job.directory,
        env=job.environment(),
        capture_output=True,
        check=True,
    )
    status, calls, modules = json.loads(done.stdout)
    assert status == 0
    assert calls < 60_000  # 39,000
    assert len(modules) < 230 and not HEAVY & set(modules), modules  # 175


def test_a_guardian_imports_little() -> None:
    command = [PYTHON, "-I", "-S", "-X", "importtime", guardian.__file__]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=True)
    imported = {line.rpartition(b"|")[2].strip().decode() for line in done.stderr.splitlines()}
    assert "json" in imported and len(imported) < 90, imported  # 60
    assert not HEAVY - {"ctypes"} & imported


def test_who_watches_sleeps_until_something_happens(job: Job) -> None:
    tell = "import os, signal\nsignal.signal(signal.SIGUSR1, lambda *_: open('got', 'w').close())\n"
    process = job.start("-np", "1", PYTHON, job.script(tell + READY))
    job.wait_ready(1)
    # has to pass by the launcher and the guardian: after it both have started
    process.send_signal(signal.SIGUSR1)
    job.wait_for_files(["got"])
    (watching,) = (
        pid for pid in job.pids() if b"guardian.py" in Path(f"/proc/{pid}/cmdline").read_bytes()
    )
    threads = sum(len(os.listdir(f"/proc/{pid}/task")) for pid in (process.pid, watching))
    before = went_to_sleep(process.pid, watching)
    time.sleep(1.2)  # span: twice the longest pause of a loop that looks instead of waiting
    assert went_to_sleep(process.pid, watching) - before <= threads  # after the signal once
    process.send_signal(signal.SIGTERM)
    process.communicate()
