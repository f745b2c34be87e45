"""`hvdliterun --monitor` on terminals and in logs."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time

import pytest
from launched import WAIT, WAIT_FOR, Job, ended, went_to_sleep
from terminal import Terminal, Watched
from waiting import wait_until

from hvdlite.launch.monitor import view
from hvdlite.launch.monitor.screen import Screen
from hvdlite.launch.output import Writer

# --- what is drawn, without a job


class FakeScreen(Screen):
    def __init__(self, monkeypatch: pytest.MonkeyPatch, columns: int = 40, rows: int = 12) -> None:
        self.terminal = Terminal()
        monkeypatch.setattr(Writer, "__init__", lambda self, descriptor: None)
        monkeypatch.setattr(Writer, "put", lambda self, data: self.terminal.feed(data))
        self.columns_rows = columns, rows
        super().__init__(-1)

    def size(self) -> tuple[int, int]:
        return self.columns_rows

    def seen(self) -> list[str]:
        self.refresh()
        return self.terminal.lines


def test_output_scrolls_above_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = FakeScreen(monkeypatch)
    screen.put(b"before\n")
    screen.show(["table", "row"])
    assert screen.seen() == ["before", "table", "row"]
    screen.put(b"one\ntwo\n")
    assert not screen.drawn
    screen.put(b"three\n")
    assert screen.seen() == ["before", "one", "two", "three", "table", "row"]
    screen.show(["TABLE"])
    assert screen.seen() == ["before", "one", "two", "three", "TABLE"]
    screen.end()
    screen.put(b"after\n")
    assert screen.seen() == ["before", "one", "two", "three", "after", ""]


def test_an_unfinished_line_stays_above_the_table_until_it_is_finished(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    screen = FakeScreen(monkeypatch)
    screen.show(["table"])
    screen.put(b"loading ")
    assert screen.seen() == ["loading ", "table"]
    screen.put(b"data")
    assert screen.seen() == ["loading data", "table"]
    screen.put(b" done\nnext")
    assert screen.seen() == ["loading data done", "next", "table"]
    screen.end()
    assert screen.seen() == ["loading data done", "next"]


def test_a_progress_bar_moves_in_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = FakeScreen(monkeypatch)
    screen.show(["table"])
    for percent in (b"10%\r", b"20%\r", b"30%\r"):
        screen.put(percent)
    assert screen.seen() == ["30%", "table"]
    screen.put(b"\nend\n")
    assert screen.seen() == ["30%", "end", "table"]


def test_a_line_that_is_too_long_is_cut_while_it_is_unfinished_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    screen = FakeScreen(monkeypatch)
    screen.show(["table"])
    screen.put(b"\x1b[31m" + b"x" * 60)
    assert screen.seen() == ["x" * 39, "table"]
    screen.put(b"\n")
    assert screen.seen() == ["x" * 60, "table"]
    screen.put(b"y" * 5000)
    assert screen.seen() == ["x" * 60, "y" * 5000, "table"]


def test_a_table_higher_than_the_terminal_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = FakeScreen(monkeypatch, rows=5)
    screen.show([str(i) for i in range(50)])
    assert screen.seen() == ["0", "1", "2"]


def test_lines_that_come_after_output_find_the_unfinished_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    screen = FakeScreen(monkeypatch)
    screen.put(b"one\nhow far: ")
    assert screen.seen() == ["one", "how far: "]  # nothing is in its way
    screen.show(["table"])
    assert screen.seen() == ["one", "how far: ", "table"]
    screen.put(b"very far\n")
    assert screen.seen() == ["one", "how far: very far", "table"]
    screen.end()
    screen.put(b"40%\r50%")
    screen.put(b"\n")
    assert screen.seen() == ["one", "how far: very far", "50%", ""]


# --- jobs

TRAIN = """
import os, sys, time
import numpy as np
import hvdlite as hvd
hvd.init()
rank, step, go_on = hvd.rank(), 0, np.ones(1)
while go_on[0]:
    time.sleep(0.1 * rank)  # span: others wait for rank 1
    for handle in [hvd.allreduce_async(np.ones(1000, np.float32), name=f"layer{i}")
                   for i in range(9)]:
        hvd.synchronize(handle)
    go_on = np.array([step < 20 or not os.path.exists("enough")], np.float64)
    go_on = hvd.broadcast(go_on, 0, name="go on")
    step += 1
    if step % 10 == 0:
        print("step", step, flush=True)
"""


def launcher_with(job: Job, *changes: str) -> None:
    """Its periods are those of the test."""
    imports = (
        "import sys\nfrom hvdlite.launch import cli\nfrom hvdlite.launch.monitor import "
        "board, view\n"
    )
    job.launcher = [
        job.script(imports + "\n".join(changes) + "\nsys.exit(cli.main())\n", "launcher.py")
    ]


def test_a_live_table_on_a_terminal_that_leaves_no_trace(job: Job) -> None:
    shown = Watched(job, "-np", "2", "--monitor", sys.executable, job.script(TRAIN))
    seen = shown.watch(r"(?m)^ +0  localhost +\d.*\d%.*\n +1  localhost +\d.*\d%.*others wait")
    rows = {
        line.split()[0]: line.split()
        for line in seen.splitlines()
        if re.match(r" +[01]  localhost ", line)
    }
    steps, operations = float(rows["0"][2]), float(rows["0"][3])
    waiting = [int(rows[rank][6].rstrip("%")) for rank in "01"]
    # At least 0.1 s a step, in which rank 0 waits; 10 operations in each.
    assert steps < 10 and operations == pytest.approx(10 * steps, rel=0.02), seen
    assert waiting[0] > waiting[1], seen
    assert re.search(r"rank  host +steps/s", seen) and re.search(
        r"broadcast\.go on|allreduce\.layer\d", seen
    )
    (job.directory / "enough").touch()
    end = shown.watch()
    assert shown.process.returncode == 0
    # Nothing but what the ranks have printed, each rank in order.
    for rank in range(2):
        lines = [line for line in end.splitlines() if line.startswith(f"[{rank}]<stdout>:")]
        assert (
            lines == [f"[{rank}]<stdout>:step {10 * i}" for i in range(1, len(lines) + 1)] and lines
        )
    assert all(line.startswith("[") for line in end.splitlines()), end


def test_a_rank_that_is_silent_is_shown_as_such_and_ctrl_c_ends_the_table(job: Job) -> None:
    script = job.script(
        "import os\nopen(f'pid.{os.environ[\"HVDLITE_RANK\"]}', 'w').write(str(os.getpid()))\n"
        + TRAIN
    )
    launcher_with(job, "board.SILENT_SECONDS = 1.5")
    shown = Watched(
        job, "-np", "2", "--monitor", sys.executable, script, HVDLITE_HEARTBEAT_SECONDS="0"
    )
    shown.watch(r"(?m)^ +1  localhost +\d")
    os.kill(int((job.directory / "pid.1").read_text()), signal.SIGSTOP)
    shown.watch(r"(?m)^ +1  localhost .*silent for \d+ s")
    shown.process.send_signal(signal.SIGINT)
    end = shown.watch()
    assert shown.process.returncode == 130
    assert end.splitlines()[-1] == "hvdliterun: ended by SIGINT; all ranks were ended."
    assert "steps/s" not in end


def test_a_failure_is_the_last_that_is_to_be_seen(job: Job) -> None:
    script = job.script(
        WAIT_FOR + "if os.environ['HVDLITE_RANK'] == '1':\n    wait_for('seen')\n    raise "
        "ValueError('bad')\n" + WAIT
    )
    shown = Watched(job, "-np", "2", "--monitor", sys.executable, script)
    assert "not yet in init()" in shown.watch("not yet in init")
    (job.directory / "seen").touch()
    end = shown.watch()
    assert shown.process.returncode == 1
    assert end.splitlines()[-1].startswith(
        "hvdliterun: rank 1 on localhost exited with code 1: ValueError: bad at "
    )
    assert "steps/s" not in end


def test_stdout_in_a_file_has_only_what_ranks_print(job: Job) -> None:
    path = job.directory / "out"
    with path.open("wb") as file:
        wait = "until [ -e {} ]; do sleep 0.05; done; "
        command = wait.format("seen") + "echo one; " + wait.format("more") + "printf two"
        shown = Watched(job, "-np", "1", "--monitor", "sh", "-c", command, stdout=file.fileno())
        assert "one" not in shown.watch("steps/s")
        (job.directory / "seen").touch()
        wait_until(lambda: b"one\n" in path.read_bytes())
        (job.directory / "more").touch()
        shown.watch()
    assert path.read_bytes() == b"[0]<stdout>:one\n[0]<stdout>:two"


def test_a_line_now_and_then_in_a_log(job: Job) -> None:
    assert view.LinesDisplay.seconds == 10
    launcher_with(job, "view.LinesDisplay.seconds = 1.5")
    began = time.monotonic()
    process = job.start("-np", "2", "--monitor", sys.executable, job.script(TRAIN))
    lines: list[str] = []
    assert process.stderr is not None
    for text in process.stderr:
        lines.append(text.decode().rstrip("\n"))
        if "others wait" in lines[-1]:
            break
    assert len(lines) <= (time.monotonic() - began) / 1.5
    told = re.fullmatch(
        r"hvdliterun: 2 ranks, ([\d.]+) steps/s, ([\d.]+) operations/s, .* k?B/s, waiting \d+% to "
        r"\d+% of the time, "
        r"last (?:broadcast.go on|allreduce.layer\d); rank 1 on localhost: others wait \d+(\.\d)? "
        r"ms for it(; The ranks get .*)?",  # if other tests use the processor
        lines[-1],
    )
    assert told and float(told[1]) * 10 == pytest.approx(float(told[2]), rel=0.02), lines
    (job.directory / "enough").touch()
    ended(process)


def test_without_a_launcher_no_thread_reports(job: Job) -> None:
    # Under hvdliterun it sleeps: test_top_runs.py.
    script = job.script(
        "import threading, hvdlite as hvd\nhvd.init()\nprint([t.name for t in "
        "threading.enumerate()])"
    )
    alone = job.spawn([sys.executable, script], subprocess.PIPE)
    assert b"hvdlite-pulse" not in ended(alone)[0]
    assert b"hvdlite-pulse" in job.run("-np", "1", "--monitor", sys.executable, script).stdout


def test_a_launcher_that_monitors_sleeps_nearly_all_the_time(job: Job) -> None:
    # That it takes at most 0.2 % of a core, however expensive its table is, is shown in
    # unit/test_monitor.py.
    script = job.script(TRAIN.replace("print(", "None and print("))
    shown = Watched(job, "-np", "2", "--monitor", sys.executable, script)
    shown.watch(r"(?m)^ +1  localhost +\d")
    before, began = went_to_sleep(shown.process.pid), time.monotonic()
    shown.watch_for(2.0)  # two readings of the reports
    turns = (went_to_sleep(shown.process.pid) - before) / (time.monotonic() - began)
    assert turns < 20, turns  # 6
    shown.process.send_signal(signal.SIGINT)
    shown.watch()
