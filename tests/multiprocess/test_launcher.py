"""`hvdliterun` as users and their accidents meet it. Ranks are shell or Python scripts without the
core."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from launched import PATIENT, READY, WAIT_FOR, Job, ended, last_line, prefixed
from machine import within

from hvdlite.launch import machine

PYTHON = sys.executable


# --- identity


def test_each_rank_computes_with_its_share_of_the_cores_and_one_line_says_so(job: Job) -> None:
    job.prefix = [
        *"env -u OMP_NUM_THREADS taskset -c".split(),
        str(min(os.sched_getaffinity(0))),
    ]
    done = job.run("-np", "2", "sh", "-c", "echo $OMP_NUM_THREADS")
    assert [prefixed(done.stdout, rank) for rank in range(2)] == [["1"], ["1"]]
    taking_turns = "hvdliterun: 2 ranks take turns on the one core of this host.\n"
    assert done.stderr.decode() == (
        f"{taking_turns}"
        "hvdliterun: OMP_NUM_THREADS is not set: each rank computes with 1 thread, for there is 1 "
        "core; -x OMP_NUM_THREADS=N gives them another number.\n"
    )
    for words in (["-np", "2", "-x", "OMP_NUM_THREADS=7"], ["-np", "1"]):
        done = job.run(*words, "sh", "-c", "echo $OMP_NUM_THREADS")
        assert prefixed(done.stdout, 0) == (["7"] if len(words) > 2 else [""])
        assert done.stderr.decode() == (taking_turns if len(words) > 2 else "")


def test_a_misspelt_variable_is_told_once_with_the_right_name(job: Job) -> None:
    program = [PYTHON, "-c", "import hvdlite as hvd; hvd.init(); hvd.shutdown(); hvd.init()"]
    for command in ([PYTHON, *job.launcher, "-np", "2", *program], program):
        process = job.spawn(command, subprocess.PIPE, HVDLITE_FUSION_TRESHOLD="1")
        _, err = ended(process)
        said = "HVDLITE_FUSION_TRESHOLD is set, but hvdlite knows no such variable: did you mean "
        assert err.decode().count(f"{said}HVDLITE_FUSION_THRESHOLD?") == 1, err


def test_as_many_ranks_as_the_machine_offers(job: Job) -> None:
    done = job.run("-np", "auto", "echo", "here")
    assert done.stdout.count(b"here") >= 1
    assert re.fullmatch(rb"hvdliterun: -np auto: \d+ ranks, one for each .*\.\n", done.stderr)


@pytest.mark.costly
def test_a_program_of_torchrun_runs(job: Job) -> None:
    pytest.importorskip("torch")
    script = job.script(
        "import torch, torch.distributed as d\n"
        "d.init_process_group('gloo')\n"
        "total = torch.full((3,), d.get_rank() + 1.0)\n"
        "d.all_reduce(total)\n"
        "print(d.get_rank(), d.get_world_size(), total[2].item(), d.is_torchelastic_launched())\n"
        "d.destroy_process_group()\n"
    )
    done = job.end_well("-np", "2", "--torch-env", PYTHON, script)
    assert [prefixed(done.stdout, rank) for rank in range(2)] == [
        ["0 2 3.0 True"],
        ["1 2 3.0 True"],
    ]
    assert b"no rank has called" not in done.stderr


def test_each_rank_knows_its_place_and_reads_the_secret_twice(job: Job) -> None:
    script = job.script(
        "import os\n"
        "from hvdlite.launch.environment import discover\n"
        "a, b = discover(os.environ), discover(os.environ)\n"
        "assert a == b and len(a.secret) == 32\n"
        "print(a.rank, a.size, a.local_rank, a.local_size, a.cross_rank, a.cross_size, "
        "hash(a.secret))\n"
    )
    done = job.end_well("-np", "3", PYTHON, script, PYTHONHASHSEED="0")
    lines = [prefixed(done.stdout, rank)[0].split() for rank in range(3)]
    assert [line[:6] for line in lines] == [[str(r), "3", str(r), "3", "0", "1"] for r in range(3)]
    assert len({line[6] for line in lines}) == 1


_PROCESSORS = (PYTHON, "-c", "import os; print(*sorted(os.sched_getaffinity(0)))")


def test_bound_ranks_have_shares_of_their_own_of_the_processors(job: Job) -> None:
    processors, _ = machine.processors_here()
    expected = machine.shares_of_processors(processors, 2) or machine.shares_of_processors(
        processors, 1
    )
    done = job.end_well("-np", str(len(expected)), "--bind", "core", *_PROCESSORS)
    seen = [[*map(int, prefixed(done.stdout, rank)[0].split())] for rank in range(len(expected))]
    assert seen == [sorted(share) for share in expected]
    done = job.run("-np", "2", "--bind", "none", *_PROCESSORS)
    assert (
        prefixed(done.stdout, 0)
        == prefixed(done.stdout, 1)
        == [" ".join(map(str, sorted(os.sched_getaffinity(0))))]
    )


def test_more_bound_ranks_than_cores_are_refused(job: Job) -> None:
    done = job.run("-np", "999", "--bind", "core", "true")
    assert done.returncode == 1 and not done.stdout
    assert (
        b"--bind core: 999 ranks, but " in done.stderr
        and b"--bind none lets ranks share cores" in done.stderr
    )


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
    done = job.end_well("-np", "2", PYTHON, script)
    assert [prefixed(done.stdout, rank) for rank in (0, 1)] == [["127.0.0.1 1"], ["127.0.0.1 0"]]


def test_the_secret_shows_neither_in_argv_nor_in_the_environment_nor_in_logs(job: Job) -> None:
    script = job.script(
        "import os\n"
        "from hvdlite.launch.environment import discover\n"
        "open('secret.' + os.environ['HVDLITE_RANK'], 'wb').write(discover(os.environ).secret)\n"
        + READY
    )
    process = job.start("-np", "2", "--verbose", "--log-level", "trace", PYTHON, script)
    job.wait_for_files(["ready.0", "ready.1"])
    secret = (job.directory / "secret.0").read_bytes()
    assert len(secret) == 32
    shown = b""
    pids = job.pids()
    assert len(pids) == 4  # launcher, guardian, two ranks
    for pid in pids:
        shown += (
            Path(f"/proc/{pid}/cmdline").read_bytes() + Path(f"/proc/{pid}/environ").read_bytes()
        )
    process.send_signal(signal.SIGTERM)
    shown += b"".join(process.communicate())
    assert b"HVDLITE_SECRET_FD=" in shown
    for form in (secret, secret.hex().encode(), secret.hex().upper().encode()):
        assert form not in shown


def test_where_descriptors_get_lost_the_users_own_secret_is_used(job: Job) -> None:
    script = job.script(
        "import os\nfrom hvdlite.launch.environment import "
        "discover\nprint(discover(os.environ).secret.hex())\n"
    )
    wrapper = job.script(
        "import subprocess, sys\nsys.exit(subprocess.run([sys.executable, "
        f"{script!r}]).returncode)",
        "wrapper.py",
    )
    lost = job.run("-np", "2", PYTHON, wrapper)
    assert lost.returncode == 1
    assert b"a program between hvdliterun and this one closes the descriptors" in lost.stderr
    done = job.end_well("-np", "2", PYTHON, wrapper, HVDLITE_SECRET="ab" * 32)
    assert prefixed(done.stdout, 1) == ["ab" * 32]
    wrong = job.run("-np", "2", PYTHON, wrapper, HVDLITE_SECRET="abc")
    assert wrong.returncode == 1 and "64 hex digits" in last_line(wrong.stderr)


def test_flags_reach_the_ranks_under_both_names(job: Job) -> None:
    command = "echo $HVDLITE_FUSION_THRESHOLD $HOROVOD_FUSION_THRESHOLD $HOROVOD_CYCLE_TIME"
    done = job.run(
        "-np", "1", "--fusion-threshold-mb", "1", "sh", "-c", command, HOROVOD_CYCLE_TIME="3"
    )
    assert prefixed(done.stdout, 0) == ["1048576 1048576 3"]


def test_an_environment_that_is_no_text_is_handed_on(job: Job) -> None:
    name, value = "HVDX", os.fsdecode(b"\xff\xfe=\n")
    done = job.run("-np", "1", "sh", "-c", 'printf "%s" "$HVDX" | od -An -tx1', **{name: value})
    assert prefixed(done.stdout, 0) == [" ff fe 3d 0a"]


# --- how it ends


def test_success(job: Job) -> None:
    done = job.run("-np", "2", "true")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_the_exit_code_is_that_of_the_first_rank_that_fails(job: Job) -> None:
    script = job.script(
        WAIT_FOR
        + "if os.environ['HVDLITE_RANK'] == '1':\n    wait_for('ready.0', 'ready.2')\n    raise "
        "SystemExit(3)\n" + READY
    )
    done = job.run("-np", "3", PYTHON, script)
    assert done.returncode == 3
    assert re.fullmatch(
        r"hvdliterun: rank 1 on localhost exited with code 3\. All other ranks have ended, too\.",
        last_line(done.stderr),
    )


def test_an_exception_is_quoted_in_the_last_line(job: Job) -> None:
    done = job.run("-np", "1", PYTHON, "-c", "raise ValueError('the learning rate is negative')")
    assert done.returncode == 1
    assert (
        "rank 0 on localhost exited with code 1: ValueError: the learning rate is negative."
        in last_line(done.stderr)
    )


def test_a_rank_killed_by_sigkill_gives_137(job: Job) -> None:
    done = job.run(
        "-np", "3", "bash", "-c", "if [ $HVDLITE_RANK = 2 ]; then kill -9 $$; fi; sleep 600"
    )
    assert done.returncode == 137
    assert "rank 2 on localhost was killed by SIGKILL" in last_line(done.stderr)


def test_a_failure_ends_grandchildren_in_other_groups_and_sessions(job: Job) -> None:
    command = (
        "timeout 600 sleep 601 & setsid sleep 602 & (setsid sleep 603 &) ; "
        "if [ $HVDLITE_RANK = 1 ]; then exit 9; fi; wait"
    )
    done = job.run("-np", "2", "bash", "-c", command)
    assert done.returncode == 9
    assert job.pids() == []


def test_what_a_successful_rank_leaves_behind_is_ended(job: Job) -> None:
    job.end_well("-np", "2", "--grace-seconds", PATIENT, "bash", "-c", "sleep 600 & echo done")
    assert job.pids() == []


def test_a_rank_that_ignores_sigterm_is_killed_after_the_grace_period(job: Job) -> None:
    script = job.script(
        "import os, signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + READY
    )
    process = job.start("-np", "2", "--grace-seconds", "0.5", PYTHON, script)
    job.wait_ready(2)
    asked = time.monotonic()
    process.send_signal(signal.SIGTERM)
    ended(process, 143)
    assert time.monotonic() - asked >= 0.5


def test_a_rank_may_tidy_up_on_sigterm(job: Job) -> None:
    script = job.script(
        WAIT_FOR + "import signal, sys\n"
        "def save(*_):\n"
        "    open('saving.' + os.environ['HVDLITE_RANK'], 'w').close()\n"
        "    wait_for('go on')\n    print('saved', flush=True)\n    sys.exit(0)\n"
        "signal.signal(signal.SIGTERM, save)\n" + READY
    )
    process = job.start("-np", "2", "--grace-seconds", PATIENT, PYTHON, script)
    job.wait_ready(2)
    process.send_signal(signal.SIGTERM)
    job.wait_for_files(["saving.0", "saving.1"])
    (job.directory / "go on").touch()
    out, _ = ended(process, 143)
    assert prefixed(out, 0) == prefixed(out, 1) == ["saved"]


@pytest.mark.parametrize(
    "number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda n: n.name
)
def test_a_signal_that_comes_before_the_launcher_watches_is_answered_as_well(
    job: Job, number: signal.Signals
) -> None:
    rank = job.script(
        "import signal, sys\n"
        "signal.signal(signal.SIGTERM, lambda *_: (print('saved', flush=True), sys.exit(0)))\n"
        + READY
    )
    launcher = job.script(
        WAIT_FOR + "import sys\n"
        "from hvdlite.launch import cli\n"
        "from hvdlite.launch.spawn import local\n"
        "start = local.start\n"
        "def hold_up(*given, **named):\n"
        "    ranks = start(*given, **named)\n"
        "    wait_for('sent')\n"
        "    return ranks\n"
        "local.start = hold_up\n"
        "sys.exit(cli.main())\n",
        "launcher.py",
    )
    job.launcher = [launcher]
    process = job.start("-np", "1", "--grace-seconds", PATIENT, PYTHON, rank)
    job.wait_ready(1)
    process.send_signal(number)
    (job.directory / "sent").touch()
    out, err = process.communicate()
    assert process.returncode == 128 + number
    assert last_line(err) == f"hvdliterun: ended by {number.name}; all ranks were ended."
    assert prefixed(out, 0) == ["saved"]


@pytest.mark.parametrize(
    "number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda n: n.name
)
def test_a_signal_to_the_launcher_ends_all_ranks(job: Job, number: signal.Signals) -> None:
    command = f"{PYTHON} -c '{READY}'"
    process = job.start("-np", "3", "--grace-seconds", PATIENT, "bash", "-c", command)
    job.wait_ready(3)
    process.send_signal(number)
    _, err = process.communicate()
    assert process.returncode == 128 + number
    assert last_line(err) == f"hvdliterun: ended by {number.name}; all ranks were ended."
    assert job.pids() == []


def test_ctrl_c_twice_does_not_wait_for_the_grace_period(job: Job) -> None:
    asked = "lambda *_: open('asked.' + os.environ['HVDLITE_RANK'], 'w').close()"
    script = job.script(f"import os, signal\nsignal.signal(signal.SIGTERM, {asked})\n{READY}")
    process = job.start("-np", "2", "--grace-seconds", PATIENT, PYTHON, script)
    job.wait_ready(2)
    process.send_signal(signal.SIGINT)
    job.wait_for_files(["asked.0", "asked.1"])  # two signals at once would be one
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=within(5))  # long before the grace period is over
    assert process.returncode == 130


def test_under_nohup_the_end_of_the_terminal_is_not_the_end_of_the_job(job: Job) -> None:
    script = job.script(
        "open('ready.0', 'w').close()\n" + WAIT_FOR + "wait_for('go')\nprint('trained')\n"
    )
    job.prefix = ("nohup",)
    process = job.start("-np", "1", PYTHON, script)
    job.wait_ready(1)
    process.send_signal(signal.SIGHUP)
    (job.directory / "go").touch()
    out, err = process.communicate()
    assert (process.returncode, prefixed(out, 0)) == (0, ["trained"]), err


# --- commands that cannot start


def test_no_such_command(job: Job) -> None:
    done = job.run("-np", "2", "no-such-command-here")
    assert done.returncode == 127
    assert done.stderr.decode() == (
        "hvdliterun: cannot start 'no-such-command-here': No such file or directory.\n"
    )


def test_a_command_that_is_not_executable(job: Job) -> None:
    script = job.script("print(1)")
    done = job.run("-np", "2", script)
    assert done.returncode == 126
    assert (
        f"cannot start '{script}': Permission denied. Did you mean `python {script}`?"
        in last_line(done.stderr)
    )


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
