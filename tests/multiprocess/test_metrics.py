"""`hvdliterun --metrics-port` and `--metrics-file`."""

from __future__ import annotations

import contextlib
import json
import os
import re
import socket
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from counting import OPERATIONS, PROGRAM
from launched import Job, last_line
from machine import within
from waiting import wait_until

from hvdlite.launch.monitor import metrics

# Those of unit/test_exposition.py.
KNOWN = (
    "operations failures bytes bytes_before_encoding bytes_encoded batches batches_fused "
    "lists lists_taken_apart batches_on_gpu requests_in_full requests_by_slot "
    "seconds_negotiating seconds_moving seconds_waited_for_rank background_wakes "
    "moves_to_another_processor carried_by"
).split()
# No time limit of a real job is shortened: the launcher looks more often.
HASTE = """
import sys
from hvdlite.launch import cli
from hvdlite.launch.monitor import metrics, view
view._READ_SECONDS = metrics.MetricsPage.seconds = metrics.MetricsFile.seconds = 0.1
sys.exit(cli.main())
"""


@pytest.fixture
def hasty(job: Job) -> Job:
    job.launcher = [job.script(HASTE, "launcher.py")]
    return job


def counted(page: str) -> list[int]:
    return [int(each) for each in re.findall(r"(?m)^hvdlite_operations_total\{.*\} (\d+)$", page)]


def test_a_page_for_prometheus(hasty: Job) -> None:
    process = hasty.start("-np", "2", "--metrics-port", "0", sys.executable, hasty.script(PROGRAM))
    assert process.stderr is not None
    said = process.stderr.readline().decode()
    told = re.fullmatch(r"hvdliterun: metrics are at (http://127\.0\.0\.1:\d+)/metrics\n", said)
    assert told, said

    def page() -> str:
        with urllib.request.urlopen(f"{told[1]}/metrics", timeout=30) as answer:
            assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
            return str(answer.read().decode())

    # Some of the operations are done, and then all.
    wait_until(lambda: counted(page()) == [OPERATIONS, OPERATIONS])
    with pytest.raises(urllib.error.HTTPError, match="404"):
        urllib.request.urlopen(f"{told[1]}/", timeout=30)
    (hasty.directory / "enough").touch()
    _, err = process.communicate(timeout=60)
    assert process.returncode == 0, err


def test_readers_that_say_nothing_hold_up_neither_others_nor_the_end(job: Job) -> None:
    slow = HASTE.replace("0.1\n", "0.1\nmetrics._SECONDS_OF_A_REQUEST = 600\n", 1)
    job.launcher = [job.script(slow, "launcher.py")]
    process = job.start("-np", "2", "--metrics-port", "0", sys.executable, job.script(PROGRAM))
    assert process.stderr is not None
    told = re.search(rb"http://127\.0\.0\.1:(\d+)/metrics", process.stderr.readline())
    assert told
    page = f"http://127.0.0.1:{int(told[1])}/metrics"
    with contextlib.ExitStack() as strangers:
        for _ in range(2 * metrics.MOST_READERS):
            stranger = socket.create_connection(("127.0.0.1", int(told[1])), timeout=within(30))
            strangers.enter_context(stranger).sendall(b"GET /metrics HTTP/1.1\r\nX: ")
        with urllib.request.urlopen(page, timeout=within(30)) as answer:
            assert answer.status == 200
        (job.directory / "enough").touch()
        _, err = process.communicate(timeout=within(60))
    assert process.returncode == 0, err


def test_a_file_of_lines_ends_with_the_last_counters(hasty: Job) -> None:
    path = hasty.directory / "metrics.jsonl"
    process = hasty.start(
        "-np", "2", "--metrics-file", str(path), sys.executable, hasty.script(PROGRAM)
    )
    wait_until(lambda: path.exists() and path.read_bytes().count(b"\n") >= 2)
    (hasty.directory / "enough").touch()
    assert process.wait(60) == 0
    assert path.stat().st_mode & 0o777 == 0o600
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert lines == sorted(lines, key=lambda line: line["time"])
    counters = [rank["counters"] for rank in lines[-1]["ranks"]]
    assert [each["operations"] for each in counters] == [OPERATIONS, OPERATIONS]
    # A counter that is new belongs on the page, too.
    assert set(counters[0]) == set(KNOWN)
    # Another job adds to the file.
    process = hasty.start("-np", "1", "--metrics-file", str(path), "true")
    assert process.wait(60) == 0
    assert path.read_text().splitlines()[: len(lines)] == [
        json.dumps(line) for line in lines
    ] and path.read_bytes().count(b"\n") > len(lines)


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (("--metrics-port", "{taken}"), "there is no page of metrics: cannot listen on "),
        (("--metrics-file", "/no/such/folder/x"), "there is no file of metrics: cannot open "),
        (("--metrics-file", "/dev/full"), "the rest of the metrics is lost: cannot write to "),
    ],
)
def test_what_cannot_be_opened_or_written_is_told_once_and_the_job_goes_on(
    hasty: Job, flags: tuple[str, str], sentence: str
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        flag, value = flags
        value = value.format(taken=taken.getsockname()[1])
        (hasty.directory / "enough").touch()
        done = hasty.run("-np", "2", flag, value, sys.executable, hasty.script(PROGRAM))
    err = done.stderr.decode()
    assert done.returncode == 0, err
    assert err.count(f"hvdliterun: {sentence}") == 1, err


def test_a_port_that_is_none(job: Job) -> None:
    done = job.run("-np", "1", "--metrics-port", "70000", "true")
    assert done.returncode == 2
    assert "expected a port from 0 to 65535, got '70000'" in last_line(done.stderr)


def test_the_launcher_leaves_no_descriptor_to_its_ranks(hasty: Job) -> None:
    before = hasty.script("import os; print(sorted(os.listdir('/proc/self/fd')))", "count.py")
    plain = hasty.run("-np", "1", sys.executable, before).stdout
    path = Path(os.devnull)
    flags = ("--metrics-port", "0", "--metrics-file", str(path))
    assert hasty.run("-np", "1", *flags, sys.executable, before).stdout == plain
