"""What a job tells about itself: timeline, counters, the last operations, and the verdict on a
stall."""

from __future__ import annotations

import json
import re
import time
from collections import defaultdict
from pathlib import Path

from launched import Job, last_line, prefixed

SETUP = """
import os, sys, time
import numpy as np
import hvdlite as hvd
hvd.init()
r = hvd.rank()
"""


def _two_ranks(job: Job, program: str, **extra: str) -> None:
    """They run it behind SETUP, and end well."""
    job.end_well("-np", "2", "python", job.script(SETUP + program), **extra)


def _events(path: Path) -> list[dict]:
    return json.loads(path.read_text())


def test_a_timeline_from_the_variable_is_a_trace_whose_phases_nest(job: Job) -> None:
    path = job.directory / "trace.json"
    _two_ranks(job, """
for _ in range(3):
    hvd.allreduce(np.ones((17, 17), np.float32), name="a")
    hvd.allgather(np.ones((r + 1, 2)), name="b")
hvd.shutdown()
""", HVDLITE_TIMELINE=str(path))  # fmt: skip
    events = _events(path)
    phases: dict[str, list[str]] = defaultdict(list)  # by operation
    stacks: dict[int, list[str]] = defaultdict(list)  # by lane: what is open
    clock: dict[int, float] = defaultdict(float)
    for event in events:
        if event["ph"] not in "BE" or event["pid"] != 0:
            continue
        lane = event["tid"]
        assert event["ts"] >= clock[lane], "time runs backwards"
        clock[lane] = event["ts"]
        if event["ph"] == "E":
            stacks[lane].pop()  # a phase ends that never began: IndexError
            continue
        if stacks[lane]:
            phases[stacks[lane][0]].append(event["name"])
        stacks[lane].append(event["name"])
    assert not any(stacks.values()), "a phase never ends"
    assert phases["allreduce.a"] == ["NEGOTIATE_ALLREDUCE", "ALLREDUCE", "SHM_ALLREDUCE"] * 3
    assert phases["allgather.b"] == ["NEGOTIATE_ALLGATHER", "ALLGATHER", "SHM_ALLGATHER"] * 3
    ways = [
        event["args"]
        for event in events
        if event["ph"] == "E" and "algorithm" in event.get("args", {})
    ]
    assert len(ways) == 6 and {way["communicator"] for way in ways} == {
        "shm: all members are on one host"
    }
    assert ways[0]["algorithm"].startswith("shm exchange")


def test_the_timeline_of_rank_0_shows_which_rank_was_waited_for(job: Job) -> None:
    """On two hosts, the second of which has a relay."""
    script = job.script(
        "import os\nos.environ['HVDLITE_HOST_ID'] = str(int(os.environ['HVDLITE_RANK']) // 2)\n"
        + SETUP
        + """
def asked():  # rank 0 makes the file, perhaps after rank 3 has left init()
    text = open("trace.json").read() if os.path.exists("trace.json") else ""
    return min(text.count('"name": "1"'), text.count('"name": "2"'))
for step in range(3):
    while r == 3 and asked() <= step:
        time.sleep(0.01)  # poll
    hvd.allreduce(np.ones(4), name="a")
hvd.shutdown()
"""
    )
    path = job.directory / "trace.json"
    job.end_well("-np", "4", "python", script, HVDLITE_TIMELINE=str(path))
    events = _events(path)
    asked = [e["name"] for e in events if e["ph"] == "X" and e["pid"] == 0]
    rounds = [asked[i : i + 4] for i in range(0, len(asked), 4)]
    assert [sorted(each) for each in rounds] == [["0", "1", "2", "3"]] * 3
    assert [each[-1] for each in rounds] == ["3"] * 3
    assert {e["args"]["name"]: e["pid"] for e in events if e.get("name") == "process_name"} == {
        f"rank {rank}": rank for rank in range(4)
    }
    waited = {
        rank: [e["dur"] for e in events if e["ph"] == "X" and e["pid"] == rank]
        for rank in (1, 2, 3)
    }
    assert {e["name"] for e in events if e["ph"] == "X" and e["pid"] > 0} == {"allreduce.a"}
    for one, two, three in zip(*waited.values(), strict=True):
        assert three < min(one, two), waited


def test_a_timeline_can_be_started_and_stopped_on_all_ranks(job: Job) -> None:
    _two_ranks(job, """
hvd.allreduce(np.ones(4), name="before")
hvd.start_timeline("trace.json", mark_cycles=True)
hvd.allreduce(np.ones(4), name="within")
hvd.stop_timeline()
hvd.stop_timeline()
hvd.barrier()  # rank 0 hears of what others ask for
hvd.allreduce(np.ones(4), name="after")
""", HVDLITE_TIMELINE_RANKS="all")  # fmt: skip
    for name in ("trace.json", "trace.rank1.json"):
        text = (job.directory / name).read_text()
        assert "allreduce.within" in text and "CYCLE_START" in text
        assert "before" not in text and "after" not in text
        json.loads(text)


def test_a_job_that_dies_leaves_a_readable_timeline(job: Job) -> None:
    script = job.script(
        SETUP
        + """
import os
hvd.allreduce(np.ones(4), name="last words")
while "last words" not in open("trace.json").read():
    time.sleep(0.01)  # poll
os._exit(3)
"""
    )
    path = job.directory / "trace.json"
    assert job.run("-np", "2", "python", script, HVDLITE_TIMELINE=str(path)).returncode == 3
    assert "last words" in path.read_text()
    json.loads(path.read_text())


def test_counters_and_the_last_operations_tell_what_happened(job: Job) -> None:
    _two_ranks(job, """
for i in range(5):
    hvd.allreduce(np.ones(1000, np.float32), name="x")
try:
    hvd.allreduce(np.ones(2 + r), name="y")
except hvd.MismatchError:
    pass
counters = hvd.metrics()
assert counters["operations"] == 5 and counters["bytes"] == 5 * 4000, counters
assert counters["failures"] == 1, counters
assert counters["requests_by_slot"] == 4, counters
recent = hvd.recent_operations()
assert [o["name"] for o in recent] == ["allreduce.x"] * 5 + ["allreduce.y"], recent
assert [o["failed"] for o in recent] == [False] * 5 + [True]
assert {(o["dtype"], o["communicator"]) for o in recent[:5]} == {("float32", "shm")}, recent
assert recent[-1]["communicator"] == "", recent  # nothing was moved
assert all(o["submitted"] <= o["agreed"] <= o["done"] for o in recent), recent
# Who comes last is the one that is waited for, from when the first has been heard.
before = hvd.metrics()
if r == 0:
    handle = hvd.allreduce_async(np.ones(1), name="late")
    while hvd.metrics()["requests_in_full"] == before["requests_in_full"]:
        time.sleep(0.001)  # poll
    open("heard", "w").close()
else:
    while not os.path.exists("heard"):
        time.sleep(0.001)  # poll
    time.sleep(0.2)  # span: what is waited for it
    handle = hvd.allreduce_async(np.ones(1), name="late")
hvd.synchronize(handle)
if r == 0:
    after = hvd.metrics()
    waited = "seconds_waited_for_rank"
    grown = {rank: after[waited].get(rank, 0) - before[waited].get(rank, 0) for rank in "01"}
    assert grown["0"] == 0 and grown["1"] >= 0.2, grown
""")  # fmt: skip


def test_a_moment_counts_once_however_many_operations_wait(job: Job) -> None:
    """Rank 1 comes when ten operations of rank 0 have waited for it."""
    _two_ranks(job, """
FIGURES = ("seconds_negotiating", "seconds_moving")
hvd.barrier()
before, began = hvd.metrics(), time.monotonic()
while r == 1 and not os.path.exists("submitted"):
    time.sleep(0.001)  # poll
handles = [hvd.allreduce_async(np.ones(1000), name=f"x{i}") for i in range(10)]
if r == 0:
    while hvd.metrics()["requests_in_full"] < before["requests_in_full"] + len(handles):
        time.sleep(0.001)  # poll
    open("submitted", "w").close()
for handle in handles:
    hvd.synchronize(handle)
after, elapsed = hvd.metrics(), time.monotonic() - began
grown = {name: after[name] - before[name] for name in FIGURES}
assert all(0 < seconds <= elapsed for seconds in grown.values()), (grown, elapsed)
""")  # fmt: skip


def test_the_recorder_keeps_the_last_operations_only(job: Job) -> None:
    _two_ranks(job, """
for i in range(20):
    hvd.allreduce(np.ones(1), name=f"x{i}")
assert [o["name"] for o in hvd.recent_operations()] == [f"allreduce.x{i}" for i in range(12, 20)]
""", HVDLITE_RECORDER_ENTRIES="8")  # fmt: skip


# A stall is told soon, and ends the job soon after.
SHORT = {"HVDLITE_STALL_CHECK_TIME_SECONDS": "0.5", "HVDLITE_STALL_SHUTDOWN_TIME_SECONDS": "1"}


def stall(wait: str) -> str:
    """A program of whose ranks one does not come before `wait` is over."""
    return (
        SETUP
        + f"""
import os
def evaluate():
    {wait}      # the line that is to blame
if r == 1:
    evaluate()
hvd.allreduce(np.ones(1), name="conv1.weight")
"""
    )


def test_a_stall_gets_one_verdict_that_says_who_is_where(job: Job) -> None:
    # Rank 1 stays there until it is the one that is missing: a rank that is held up on its way
    # comes before the next verdict. Only functions of C's are called, or one of them may be the
    # place.
    program = stall("while not os.access('told', os.F_OK): time.sleep(0.1)")  # poll
    script = job.script(program, "train.py")
    line = next(i for i, text in enumerate(program.splitlines(), 1) if "to blame" in text)
    began = time.monotonic()
    process = job.start("-np", "3", "python", script, HVDLITE_STALL_CHECK_TIME_SECONDS="0.5")
    said = ""
    assert process.stderr is not None
    for text in process.stderr:
        said += text.decode()
        if "; ranks 0 and 2 wait in" in said:
            (job.directory / "told").touch()
    process.communicate()
    assert process.returncode == 0, said
    assert "Missing ranks" in said and "1: [allreduce.conv1.weight]" in said
    place = rf"it is in train\.py:{line} \(evaluate\) and has submitted nothing for ([0-9.]+) s"
    silent = re.search(place, said)
    # it has never submitted anything
    assert silent and float(silent[1]) < time.monotonic() - began, said
    assert "rank 1 has not asked for allreduce 'conv1.weight' for " in said
    assert re.search(r"; ranks 0 and 2 wait in train\.py:\d+$", said, re.M), said


def test_a_stall_beyond_the_limit_ends_the_job_if_asked_to(job: Job) -> None:
    script = job.script(stall("time.sleep(600)"), "train.py")  # until killed
    done = job.run("-np", "2", "python", script, **SHORT)
    said = done.stderr.decode()
    assert done.returncode != 0
    assert "has been shut down" in said and "train.py" in said and "ShutDownError" in said


def test_a_stall_names_operations_of_different_kinds_under_one_name(job: Job) -> None:
    script = job.script(
        SETUP + "(hvd.allgather if r == 1 else hvd.allreduce)(np.ones(1), name='grads')\n",
        "train.py",
    )
    done = job.run("-np", "3", "python", script, **SHORT)
    said = done.stderr.decode()
    assert done.returncode != 0
    pairs = ("allreduce 'grads' on ranks 0 and 2", "allgather 'grads' on rank 1")
    assert any("Different operations are never matched with each other, even under one name: "
               f"{a}, {b}." in said
               for a, b in (pairs, pairs[::-1])), said  # fmt: skip


def test_the_stall_check_can_be_turned_off(job: Job) -> None:
    # span: a stall is looked for every 0.3 s, and told 1 s later
    script = job.script(stall("time.sleep(2.5)"), "train.py")
    done = job.end_well(
        "-np",
        "2",
        "python",
        script,
        HVDLITE_STALL_CHECK_TIME_SECONDS="0.3",
        HVDLITE_STALL_CHECK_DISABLE="1",
    )
    assert "Missing ranks" not in done.stderr.decode()


def test_the_last_line_names_the_rank_and_the_cause_of_an_exception_of_several_lines(
    job: Job,
) -> None:
    """As torch's DataLoader raises a worker's exception again."""
    script = job.script(
        "import numpy as np\nimport hvdlite as hvd\nhvd.init()\n"
        "if hvd.rank() == 1:\n"
        "    hvd.allreduce(np.ones(3), name='a')\n"
        "    frames = ''.join(f'  File \"x{i}.py\", line {i}, in f\\n    do_something_{i}()\\n' "
        "for i in range(30))\n"
        "    text = 'Caught ValueError in worker 0.\\nOriginal Traceback (most recent call "
        "last):\\n' + frames\n"
        "    raise RuntimeError(text + 'ValueError: bad sample 200')\n"
        "while True: hvd.allreduce(np.ones(3), name='a')\n"
    )
    done = job.run("-np", "3", "python", script)
    assert last_line(done.stderr) == (
        "hvdliterun: rank 1 on localhost exited with code 1: ValueError: bad sample 200 at "
        "x29.py:29 (f). All other ranks have ended, too."
    )
    told = [line for line in prefixed(done.stderr, 0, "stderr") if "PeerLostError" in line]
    assert (
        "RuntimeError: Caught ValueError in worker 0. ... ValueError: bad sample 200" in told[-1]
    ), told
