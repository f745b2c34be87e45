"""`hvdliterun` as users and their accidents meet it. Ranks are shell or Python scripts without the core."""

from __future__ import annotations

import os
import re
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from launched import MARK, Job, _default_signals, last_line, prefixed
from machine import slowness, within

# "I am here" for wait_for_files(), then a long sleep.
READY = "import os, time; open(f'ready.{os.environ[\"HVDLITE_RANK\"]}', 'w').close(); time.sleep(600)"
PYTHON = sys.executable
# For --grace-seconds: a launcher that waited for their end would be noticed, and no rank is ended because it is slow.
PATIENT = "600"


# --- identity


def test_each_rank_knows_its_place_and_reads_the_secret_twice(job: Job) -> None:
    script = job.script(
        "import os\n"
        "from hvdlite.launch.environment import discover\n"
        "a, b = discover(os.environ), discover(os.environ)\n"
        "assert a == b and len(a.secret) == 32\n"
        "print(a.rank, a.size, a.local_rank, a.local_size, a.cross_rank, a.cross_size, hash(a.secret))\n"
    )
    done = job.run("-np", "3", PYTHON, script, PYTHONHASHSEED="0")
    assert done.returncode == 0, done.stderr
    lines = [prefixed(done.stdout, rank)[0].split() for rank in range(3)]
    assert [line[:6] for line in lines] == [[str(r), "3", str(r), "3", "0", "1"] for r in range(3)]
    assert len({line[6] for line in lines}) == 1


def test_two_names_of_this_machine_count_as_two_hosts(job: Job) -> None:
    command = "echo $HOROVOD_LOCAL_RANK $HVDLITE_CROSS_RANK $HVDLITE_CROSS_SIZE $HVDLITE_HOST_ID"
    done = job.run("-H", "localhost:2,127.0.0.1:1", "sh", "-c", command)
    assert [prefixed(done.stdout, rank) for rank in range(3)] == [
        ["0 0 2 localhost"],
        ["1 0 1 localhost"],
        ["0 1 2 127.0.0.1"],
    ]


def test_ranks_meet_at_the_launchers_store_which_only_the_loopback_reaches(job: Job) -> None:
    script = job.script(
        "import os\n"
        "from hvdlite.launch.environment import discover\n"
        "from hvdlite.rendezvous.client import StoreClient\n"
        "me = discover(os.environ)\n"
        "client = StoreClient(me.rendezvous, me.secret)\n"
        "client.set(f'from/{me.rank}', b'%d' % me.rank)\n"
        "print(me.rendezvous[0], client.get(f'from/{1 - me.rank}', timeout=20).decode())\n"
    )
    done = job.run("-np", "2", PYTHON, script)
    assert done.returncode == 0, done.stderr
    assert [prefixed(done.stdout, rank) for rank in (0, 1)] == [["127.0.0.1 1"], ["127.0.0.1 0"]]


def test_the_secret_shows_neither_in_argv_nor_in_the_environment_nor_in_logs(job: Job) -> None:
    script = job.script(
        "import os, time\n"
        "from hvdlite.launch.environment import discover\n"
        "open('secret.' + os.environ['HVDLITE_RANK'], 'wb').write(discover(os.environ).secret)\n" + READY
    )
    process = job.start("-np", "2", "--verbose", "--log-level", "trace", PYTHON, script)
    job.wait_for_files(["ready.0", "ready.1"])
    secret = (job.directory / "secret.0").read_bytes()
    assert len(secret) == 32
    shown = b""
    pids = job.pids()
    assert len(pids) == 4  # launcher, guardian, two ranks
    for pid in pids:
        shown += Path(f"/proc/{pid}/cmdline").read_bytes() + Path(f"/proc/{pid}/environ").read_bytes()
    process.send_signal(signal.SIGTERM)
    shown += b"".join(process.communicate())
    assert b"HVDLITE_SECRET_FD=" in shown
    for form in (secret, secret.hex().encode(), secret.hex().upper().encode()):
        assert form not in shown


def test_where_descriptors_get_lost_the_users_own_secret_is_used(job: Job) -> None:
    script = job.script(
        "import os\nfrom hvdlite.launch.environment import discover\nprint(discover(os.environ).secret.hex())\n"
    )
    wrapper = job.script(
        f"import subprocess, sys\nsys.exit(subprocess.run([sys.executable, {script!r}]).returncode)",
        "wrapper.py",
    )
    lost = job.run("-np", "2", PYTHON, wrapper)
    assert lost.returncode == 1
    assert b"a program between hvdliterun and this one closes the descriptors" in lost.stderr
    done = job.run("-np", "2", PYTHON, wrapper, HVDLITE_SECRET="ab" * 32)
    assert done.returncode == 0, done.stderr
    assert prefixed(done.stdout, 1) == ["ab" * 32]
    wrong = job.run("-np", "2", PYTHON, wrapper, HVDLITE_SECRET="abc")
    assert wrong.returncode == 1 and "64 hex digits" in last_line(wrong.stderr)


def test_flags_reach_the_ranks_under_both_names(job: Job) -> None:
    command = "echo $HVDLITE_FUSION_THRESHOLD $HOROVOD_FUSION_THRESHOLD $HOROVOD_CYCLE_TIME"
    done = job.run("-np", "1", "--fusion-threshold-mb", "1", "sh", "-c", command, HOROVOD_CYCLE_TIME="3")
    assert prefixed(done.stdout, 0) == ["1048576 1048576 3"]


def test_an_environment_that_is_no_text_is_handed_on(job: Job) -> None:
    name, value = "HVDX", os.fsdecode(b"\xff\xfe=\n")
    done = job.run("-np", "1", "sh", "-c", 'printf "%s" "$HVDX" | od -An -tx1', **{name: value})
    assert prefixed(done.stdout, 0) == [" ff fe 3d 0a"]


# --- how it ends


def test_success(job: Job) -> None:
    done = job.run("-np", "4", "true")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_the_exit_code_is_that_of_the_first_rank_that_fails(job: Job) -> None:
    script = job.script(
        "import os, time\n"
        "rank = int(os.environ['HVDLITE_RANK'])\n"
        "if rank == 1:\n    time.sleep(0.3); raise SystemExit(3)\n"
        "time.sleep(600)\n"
    )
    start = time.monotonic()
    done = job.run("-np", "3", PYTHON, script)
    assert done.returncode == 3
    assert time.monotonic() - start < 5 * slowness()
    assert re.fullmatch(
        r"hvdliterun: rank 1 on localhost exited with code 3\. All other ranks have ended, too\.",
        last_line(done.stderr),
    )


def test_an_exception_is_quoted_in_the_last_line(job: Job) -> None:
    done = job.run("-np", "1", PYTHON, "-c", "raise ValueError('the learning rate is negative')")
    assert done.returncode == 1
    assert "rank 0 on localhost exited with code 1: ValueError: the learning rate is negative." in last_line(
        done.stderr
    )


def test_a_rank_killed_by_sigkill_gives_137(job: Job) -> None:
    done = job.run("-np", "3", "bash", "-c", "if [ $HVDLITE_RANK = 2 ]; then kill -9 $$; fi; sleep 600")
    assert done.returncode == 137
    assert "rank 2 on localhost was killed by SIGKILL" in last_line(done.stderr)


def test_a_failure_ends_grandchildren_in_other_groups_and_sessions(job: Job) -> None:
    command = (
        "timeout 600 sleep 601 & setsid sleep 602 & (setsid sleep 603 &) ; "
        "if [ $HVDLITE_RANK = 1 ]; then sleep 0.3; exit 9; fi; wait"
    )
    done = job.run("-np", "2", "bash", "-c", command)
    assert done.returncode == 9
    assert job.pids() == []


def test_what_a_successful_rank_leaves_behind_is_ended(job: Job) -> None:
    start = time.monotonic()
    done = job.run("-np", "2", "bash", "-c", "sleep 600 & echo done")
    assert done.returncode == 0
    assert time.monotonic() - start < 4 * slowness()
    assert job.pids() == []


def test_a_rank_that_ignores_sigterm_is_killed_after_the_grace_period(job: Job) -> None:
    script = job.script(
        "import os, signal, time\n"
        "if os.environ['HVDLITE_RANK'] == '0':\n"
        "    while not os.path.exists('deaf'): time.sleep(0.01)\n"
        "    raise SystemExit(4)\n"
        "signal.signal(signal.SIGTERM, lambda *_: print('no', flush=True))\n"
        "open('deaf', 'w').close()\n"
        "while True: time.sleep(1)\n"
    )
    start = time.monotonic()
    done = job.run("-np", "2", PYTHON, script)
    assert done.returncode == 4
    assert 4.5 < time.monotonic() - start < 9 * slowness()
    assert prefixed(done.stdout, 1) == ["no"]


def test_a_rank_may_tidy_up_on_sigterm(job: Job) -> None:
    script = job.script(
        "import os, signal, sys, time\n"
        "def save(*_):\n    time.sleep(0.5); print('saved', flush=True); sys.exit(0)\n"
        "signal.signal(signal.SIGTERM, save)\n"
        "open(f'ready.{os.environ[\"HVDLITE_RANK\"]}', 'w').close()\n"
        "while True: time.sleep(1)\n"
    )
    process = job.start("-np", "2", "--grace-seconds", PATIENT, PYTHON, script)
    job.wait_for_files(["ready.0", "ready.1"])
    process.send_signal(signal.SIGTERM)
    out, _ = process.communicate()
    assert process.returncode == 143
    assert prefixed(out, 0) == prefixed(out, 1) == ["saved"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda n: n.name)
def test_a_signal_that_comes_before_the_launcher_watches_is_answered_as_well(job: Job, number: signal.Signals) -> None:
    rank = job.script(
        "import os, signal, sys, time\n"
        "signal.signal(signal.SIGTERM, lambda *_: (print('saved', flush=True), sys.exit(0)))\n"
        "open('ready.0', 'w').close()\n"
        "while True: time.sleep(0.1)\n"
    )
    launcher = job.script(
        "import os, sys, time\n"
        "from hvdlite.launch import cli\n"
        "from hvdlite.launch.spawn import local\n"
        "start = local.start\n"
        "def hold_up(*given, **named):\n"
        "    ranks = start(*given, **named)\n"
        "    while not os.path.exists('sent'): time.sleep(0.01)\n"
        "    return ranks\n"
        "local.start = hold_up\n"
        "sys.exit(cli.main())\n",
        "launcher.py",
    )
    process = subprocess.Popen(
        [PYTHON, launcher, "-np", "1", "--grace-seconds", PATIENT, PYTHON, rank],
        cwd=job.directory,
        env=job.environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=_default_signals,
    )
    job.started.append(process)
    _wait_ready(job, 1)
    process.send_signal(number)
    (job.directory / "sent").touch()
    out, err = process.communicate()
    assert process.returncode == 128 + number
    assert last_line(err) == f"hvdliterun: ended by {number.name}; all ranks were ended."
    assert prefixed(out, 0) == ["saved"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda n: n.name)
def test_a_signal_to_the_launcher_ends_all_ranks(job: Job, number: signal.Signals) -> None:
    command = f"{PYTHON} -c '{READY.replace(chr(39), chr(34) * 3)}'"
    process = job.start("-np", "3", "--grace-seconds", PATIENT, "bash", "-c", command)
    _wait_ready(job, 3)
    process.send_signal(number)
    _, err = process.communicate()
    assert process.returncode == 128 + number
    assert last_line(err) == f"hvdliterun: ended by {number.name}; all ranks were ended."
    assert job.pids() == []


def _wait_ready(job: Job, count: int) -> None:
    job.wait_for_files([f"ready.{rank}" for rank in range(count)])


def test_ctrl_c_twice_does_not_wait_for_the_grace_period(job: Job) -> None:
    asked = "lambda *_: open('asked.' + os.environ['HVDLITE_RANK'], 'w').close()"
    script = job.script(f"import os, signal; signal.signal(signal.SIGTERM, {asked})\n{READY}\ntime.sleep(600)\n")
    process = job.start("-np", "2", "--grace-seconds", PATIENT, PYTHON, script)
    _wait_ready(job, 2)
    process.send_signal(signal.SIGINT)
    job.wait_for_files(["asked.0", "asked.1"])  # two signals at once would be one
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=within(5))  # long before the grace period is over
    assert process.returncode == 130


def test_under_nohup_the_end_of_the_terminal_is_not_the_end_of_the_job(job: Job) -> None:
    script = job.script(
        "import os, time\n"
        "open('ready.0', 'w').close()\n"
        "while not os.path.exists('go'): time.sleep(0.01)\n"
        "print('trained')\n"
    )
    job.prefix = ("nohup",)
    process = job.start("-np", "1", PYTHON, script)
    _wait_ready(job, 1)
    process.send_signal(signal.SIGHUP)
    (job.directory / "go").touch()
    out, err = process.communicate()
    assert (process.returncode, prefixed(out, 0)) == (0, ["trained"]), err


def test_a_stopped_rank_is_ended_too(job: Job) -> None:
    process = job.start("-np", "2", "--grace-seconds", PATIENT, PYTHON, job.script(READY))
    _wait_ready(job, 2)
    for pid in _ranks(job, process):
        os.kill(pid, signal.SIGSTOP)
    process.send_signal(signal.SIGTERM)
    process.communicate()


def _guardian(job: Job, launcher: int) -> int:
    (pid,) = (p for p in job.pids() if b"guardian.py" in Path(f"/proc/{p}/cmdline").read_bytes())
    assert pid != launcher
    return pid


def _ranks(job: Job, process: subprocess.Popen[bytes]) -> list[int]:
    return sorted(set(job.pids()) - {process.pid, _guardian(job, process.pid)})


# Six processes.
FAMILY = (
    "trap '' TERM HUP INT; timeout 600 sleep 601 & setsid sleep 602 & (setsid sleep 603 &); "
    f"{PYTHON} -c '{READY.replace(chr(39), chr(34) * 3)}'; true"
)


def _wait_for_two_families(job: Job) -> None:
    """Until all of them are there, with the launcher and the guardian: those in the background start when they can."""
    _wait_ready(job, 2)
    deadline = time.monotonic() + 20 * slowness()
    while len(job.pids()) < 14:
        assert time.monotonic() < deadline, job.pids()
        time.sleep(0.01)


def test_kill_9_of_the_launcher_takes_grandchildren_along_at_once(job: Job) -> None:
    # Not after a grace period.
    process = job.start("-np", "2", "--grace-seconds", PATIENT, "bash", "-c", FAMILY)
    _wait_for_two_families(job)
    process.kill()
    assert job.wait_until_gone(3.0) == []


def test_kill_9_of_the_launchers_process_group_does_so_too(job: Job) -> None:
    process = subprocess.Popen(
        [PYTHON, "-m", "hvdlite.launch", "-np", "2", "--grace-seconds", PATIENT, "bash", "-c", FAMILY],
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


def test_kill_9_of_the_launcher_while_it_starts_leaves_nothing(job: Job) -> None:
    for delay in (0.05, 0.08, 0.11, 0.14, 0.17, 0.2):
        process = job.start("-np", "4", "sleep", "600")
        time.sleep(delay)
        process.kill()
        process.communicate()
        assert job.wait_until_gone(3.0) == []


def test_kill_9_of_the_guardian_ends_the_job_with_an_error(job: Job) -> None:
    process = job.start("-np", "2", "bash", "-c", f"{PYTHON} {job.script(READY)}; true")
    _wait_ready(job, 2)
    os.kill(_guardian(job, process.pid), signal.SIGKILL)
    _, err = process.communicate()
    assert process.returncode != 0
    assert "the guardian of the ranks was killed" in last_line(err)
    assert job.pids() == []


def test_kill_9_of_guardian_and_launcher_still_ends_the_ranks(job: Job) -> None:
    process = job.start("-np", "2", PYTHON, job.script(READY))
    _wait_ready(job, 2)
    guardian = _guardian(job, process.pid)
    process.send_signal(signal.SIGSTOP)  # so that it cannot help
    os.kill(guardian, signal.SIGKILL)
    deadline = time.monotonic() + 5 * slowness()
    while job.pids() != [process.pid]:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.kill()


def test_kill_9_of_a_launcher_whose_pipe_a_stray_child_holds(job: Job) -> None:
    # As a notebook's forked worker does: it inherits the launcher's end of the guardian's pipe.
    script = job.script(
        "import os, sys, time\n"
        "from hvdlite.launch import hosts, plan\n"
        "from hvdlite.launch.spawn import local\n"
        "slots = plan.assign(hosts.parse_hosts('localhost:2'))\n"
        "own = {s.rank: plan.rank_environment(s, False) for s in slots}\n"
        f"marked = {{**os.environ, {MARK!r}: {job.mark!r}}}\n"
        f"ranks = local.start([sys.executable, '-c', {READY!r}], marked, own)\n"
        "stray = os.fork()\n"
        "if stray == 0:\n    time.sleep(600); os._exit(0)\n"
        "open('stray.new', 'w').write(str(stray)); os.rename('stray.new', 'stray')\n"
        "time.sleep(600)\n"
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


def test_closed_output_does_not_stop_the_job(job: Job) -> None:
    process = job.start("-np", "1", "sh", "-c", "yes | head -c 300000; touch finished; exit 3")
    assert process.stdout is not None
    process.stdout.close()
    process.stdout = None
    process.wait()
    assert process.returncode == 3
    assert (job.directory / "finished").exists()


# --- commands that cannot start


def test_no_such_command(job: Job) -> None:
    done = job.run("-np", "2", "no-such-command-here")
    assert done.returncode == 127
    assert done.stderr.decode() == ("hvdliterun: cannot start 'no-such-command-here': No such file or directory.\n")


def test_a_command_that_is_not_executable(job: Job) -> None:
    script = job.script("print(1)")
    done = job.run("-np", "2", script)
    assert done.returncode == 126
    assert f"cannot start '{script}': Permission denied. Did you mean `python {script}`?" in last_line(done.stderr)


def test_no_such_script(job: Job) -> None:
    done = job.run("-np", "2", PYTHON, "nosuch.py")
    assert done.returncode == 2
    assert "exited with code 2" in last_line(done.stderr) and "nosuch.py" in last_line(done.stderr)


def test_a_directory_for_copies_that_cannot_be_made_starts_nothing(job: Job) -> None:
    (job.directory / "file").write_text("")
    done = job.run("-np", "2", "--output-filename", "file/logs", "sh", "-c", "touch started")
    assert done.returncode == 1
    assert "Not a directory" in last_line(done.stderr)
    assert not (job.directory / "started").exists()


# --- output


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
    done = job.run("-np", "8", PYTHON, script)
    assert done.returncode == 0
    assert len(done.stdout.splitlines()) == 16000
    for rank in range(8):
        assert prefixed(done.stdout, rank) == [f"{rank} {i} " + "x" * (i % 97) for i in range(2000)]
        assert prefixed(done.stderr, rank, "stderr") == [f"{rank} {i}" for i in range(0, 2000, 10)]


def test_binary_output_comes_out_unchanged(job: Job) -> None:
    script = job.script("import os, sys; os.write(1, bytes(range(256)) * 3 + b'end')")
    done = job.run("-np", "1", "--output-filename", "logs", PYTHON, script)
    expected = bytes(range(256)) * 3 + b"end"
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
    done = job.run("-np", "2", "--output-filename", "d/e", "-prefix-timestamp", "sh", "-c", command)
    assert done.returncode == 0
    pattern = rb"\w{3} \w{3} [ \d]\d \d\d:\d\d:\d\d \d{4}\[[01]\]<stdout>:out [01]"
    assert all(re.fullmatch(pattern, line) for line in done.stdout.splitlines())
    for rank in range(2):
        assert (job.directory / f"d/e/rank.{rank}/stdout").read_text() == f"out {rank}\n"
        assert (job.directory / f"d/e/rank.{rank}/stderr").read_text() == "err\n"


def test_a_reader_that_pauses_does_not_stop_the_ranks(job: Job) -> None:
    # 8 MB fit into the backlog: the rank goes on although nobody has read a byte.
    process = job.start("-np", "1", "sh", "-c", "yes 0123456789abcde | head -c 8000000; touch finished")
    job.wait_for_files(["finished"])
    assert process.stdout is not None
    out, _ = process.communicate()
    assert process.returncode == 0
    assert out.replace(b"[0]<stdout>:", b"") == b"0123456789abcde\n" * 500_000


def test_much_output_takes_no_forever(job: Job) -> None:
    start = time.monotonic()
    done = job.run("-np", "2", "sh", "-c", "yes 0123456789abcdef0123456789abcde | head -c 32000000")
    # One a line. Where a rank is held up in the middle of one, the other begins a line of its own there.
    assert done.stdout.count(b"f") == 2_000_000
    assert time.monotonic() - start < 20 * slowness()


# --- speed


def test_starting_two_ranks_costs_as_much_as_a_few_starts_of_python(job: Job) -> None:
    # Processor time, and beside a peer of the same moment: what others do on this machine does not matter.
    # benchmarks/starting measures the seconds.
    def spent(*command: str) -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(command, env=job.environment(), stdout=subprocess.DEVNULL, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    start = "import argparse, dataclasses, json, logging, secrets, selectors, socket, threading"
    turns: list[tuple[float, float]] = []
    while not turns or (turns[-1][1] / turns[-1][0] >= 4 and len(turns) < 20):
        turns.append((spent(PYTHON, "-c", start), spent(PYTHON, "-m", "hvdlite.launch", "-np", "2", "true")))
    assert turns[-1][1] / turns[-1][0] < 4, turns


def test_a_watching_launcher_uses_no_processor_time(job: Job) -> None:
    process = job.start("-np", "2", PYTHON, job.script(READY))
    _wait_ready(job, 2)
    pids = [process.pid, _guardian(job, process.pid)]

    def ticks() -> int:
        fields = [Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split() for pid in pids]
        return sum(int(field[11]) + int(field[12]) for field in fields)

    def used() -> int:
        before = ticks()
        time.sleep(1.0)
        return ticks() - before

    # It may still have been starting in the first second, or longer where it was held up.
    assert any(used() <= 1 for _ in range(6))
    process.send_signal(signal.SIGTERM)
    process.communicate()
