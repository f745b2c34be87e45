"""Jobs on other hosts: network namespaces with a real sshd each, and every way in which something
between can break."""

from __future__ import annotations

import os
import pty
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import sshd
from far_jobs import FarJob
from launched import MARK, PATIENT, READY, WAIT, WAIT_FOR, Job, ended, last_line, prefixed
from network import Network, why_not
from terminal import Watched
from waiting import wait_until

from hvdlite.launch import machine

PYTHON = sys.executable
_WHY_NOT = why_not() or sshd.why_not()
pytestmark = pytest.mark.skipif(_WHY_NOT is not None, reason=str(_WHY_NOT))


@pytest.fixture(scope="module")
def network() -> Iterator[Network]:
    with Network(3) as network:
        yield network


@pytest.fixture
def far(job: Job, network: Network, tmp_path_factory: pytest.TempPathFactory) -> Iterator[FarJob]:
    """A launcher on the switch, and the hosts a and b."""
    job.prefix = network.prefix(-1)
    with sshd.SshHosts(
        network, "ab", tmp_path_factory.mktemp("ssh"), f"{MARK}={job.mark}"
    ) as hosts:
        yield FarJob(job, hosts)


# --- a job that goes well


def test_ranks_on_two_hosts_and_here_know_their_place_and_add(far: FarJob) -> None:
    script = far.job.script(
        "import numpy, hvdlite as hvd\n"
        "hvd.init()\n"
        "total = hvd.allreduce(numpy.full(1000, hvd.rank() + 1.0), op=hvd.Sum)\n"
        "print(hvd.rank(), hvd.size(), hvd.local_rank(), hvd.local_size(), hvd.cross_rank(), "
        "hvd.cross_size(), total[7])\n"
    )
    done = far.end_well("-H", "a:2,localhost:1,b:1", PYTHON, script)
    assert [prefixed(done.stdout, rank) for rank in range(4)] == [
        ["0 4 0 2 0 3 10.0"],
        ["1 4 1 2 0 1 10.0"],
        ["2 4 0 1 1 3 10.0"],
        ["3 4 0 1 2 3 10.0"],
    ]
    assert done.stderr == b""


def test_a_network_without_ipv4(job: Job, tmp_path: Path) -> None:
    script = job.script(
        "import numpy, hvdlite as hvd\n"
        "hvd.init()\n"
        "print(hvd.allreduce(numpy.full(10, hvd.rank() + 1.0), op=hvd.Sum)[3])\n"
    )
    with Network(2, version=6, tag="v6") as network:
        job.prefix = network.prefix(-1)
        with sshd.SshHosts(network, "ab", tmp_path, f"{MARK}={job.mark}") as hosts:
            far = FarJob(job, hosts)
            by_name = far.run("-H", "a:1,b:1", PYTHON, script)
            # Without the help of ssh's configuration, as an address.
            by_address = far.run("-H", f"[{network.address(0)}]:1,b:1", PYTHON, script)
    for done in (by_name, by_address):
        assert done.returncode == 0, done.stderr
        assert [prefixed(done.stdout, rank) for rank in range(2)] == [["3.0"], ["3.0"]]


def test_a_hostfile_says_where(far: FarJob) -> None:
    (far.job.directory / "hosts").write_text("a slots=1\nb:2  # two\n")
    done = far.run("--hostfile", "hosts", "sh", "-c", "echo $HOROVOD_HOSTNAME $HVDLITE_LOCAL_RANK")
    assert [prefixed(done.stdout, rank) for rank in range(3)] == [["a 0"], ["b 0"], ["b 1"]]


def test_the_callers_environment_and_folder_go_along(far: FarJob) -> None:
    odd = os.fsdecode(b"\xff=\n'\"")
    command = 'printf "%s|%s|%s|%s" "$ODD" "$SET" "$CUDA_VISIBLE_DEVICES" "$PWD"'
    done = far.run(
        "-H", "a:1", "-x", "SET=x y", "sh", "-c", command, ODD=odd, CUDA_VISIBLE_DEVICES="3"
    )
    prefix = b"[0]<stdout>:"
    assert done.stdout.replace(prefix, b"") == os.fsencode(f"{odd}|x y||{far.job.directory}")


@pytest.mark.parametrize("hosts", ["localhost:1,a:1", "a:1,localhost:1", "a:2"])
def test_torchruns_variables_lead_all_ranks_to_rank_0(
    far: FarJob, network: Network, hosts: str
) -> None:
    command = "echo $RANK $LOCAL_RANK $GROUP_RANK $MASTER_ADDR $MASTER_PORT"
    done = far.run("-H", hosts, "--torch-env", "sh", "-c", command)
    zero, one = (prefixed(done.stdout, rank)[0].split() for rank in range(2))
    assert zero[:3] == ["0", "0", "0"] and one[0] == "1"
    assert zero[3:] == one[3:]
    # Under its own name, or under the address by which the other host has found the launcher.
    assert zero[3] == (network.address(-1) if hosts.startswith("localhost") else "a")


def test_ranks_share_the_cores_of_their_own_host(far: FarJob) -> None:
    far.job.prefix = [*far.job.prefix, "env", "-u", "OMP_NUM_THREADS"]
    done = far.run("-H", "a:1,b:500", "-np", "3", "sh", "-c", "echo ${OMP_NUM_THREADS-unset}")
    cores = machine.here({}).cores
    assert [prefixed(done.stdout, rank) for rank in range(3)] == [
        ["unset"],
        *[[str(max(1, cores // 2))]] * 2,
    ]
    assert re.fullmatch(
        rb"hvdliterun: OMP_NUM_THREADS is not set: .* host's cores .*\n", done.stderr
    )


def test_too_many_bound_ranks_of_another_host_are_refused_with_its_name(far: FarJob) -> None:
    done = far.run("-H", "a:999", "-np", "999", "--bind", "core", "true")
    assert done.returncode == 1
    assert re.search(rb"\ba\b.*--bind core: 999 ranks, but ", done.stderr), done.stderr


def test_output_comes_as_it_was_written(far: FarJob) -> None:
    far.job.script("head -c 20000000 /dev/urandom | base64 -w 70", "noise.sh")
    command = "sh noise.sh | tee sent.$HVDLITE_RANK; printf 'a\\rb\\377' >&2; printf end"
    done = far.end_well("-H", "a:1,b:1", "--output-filename", "copies", "sh", "-c", command)
    for rank in range(2):
        sent = (far.job.directory / f"sent.{rank}").read_bytes() + b"end"
        prefix = f"[{rank}]<stdout>:".encode()
        got = b"".join(
            line.removeprefix(prefix)
            for line in done.stdout.splitlines(keepends=True)
            if line.startswith(prefix)
        )
        # A pause in the middle of a line, and the other rank begins one of its own there: the
        # copies are exact.
        assert got.replace(b"\n", b"") == sent.replace(b"\n", b"")
        assert (far.job.directory / "copies" / f"rank.{rank}" / "stdout").read_bytes() == sent
        assert (
            far.job.directory / "copies" / f"rank.{rank}" / "stderr"
        ).read_bytes() == b"a\rb\xff"


def test_a_talkative_login_shell_does_no_harm(job: Job, network: Network, tmp_path: Path) -> None:
    job.prefix = network.prefix(-1)
    greeting = "echo Welcome; echo No mail.; eval $SSH_ORIGINAL_COMMAND"
    with sshd.SshHosts(network, "ab", tmp_path, f"{MARK}={job.mark}", forced=greeting) as hosts:
        done = FarJob(job, hosts).run("-H", "a:1,b:1", "sh", "-c", "echo fine")
    assert done.returncode == 0 and done.stdout.count(b"\n") == 2
    assert [prefixed(done.stdout, rank) for rank in range(2)] == [["fine"], ["fine"]]


def test_the_secret_shows_neither_in_argv_nor_in_environments(far: FarJob) -> None:
    script = far.job.script(
        "import os\nfrom hvdlite.launch.environment import discover\n"
        "open('secret.' + os.environ['HVDLITE_RANK'], 'wb').write(discover(os.environ).secret)\n"
        + READY
    )
    process = far.start("-H", "a:1,b:1", "--verbose", "--log-level", "trace", PYTHON, script)
    far.job.wait_ready(2)
    secret = (far.job.directory / "secret.0").read_bytes()
    assert secret == (far.job.directory / "secret.1").read_bytes() and len(secret) == 32
    pids = far.job.pids()
    # the launcher; for each host ssh, the agent, its guardian, the rank
    assert len(pids) >= 1 + 2 * 4
    shown = b"".join(
        Path(f"/proc/{pid}/{what}").read_bytes() for pid in pids for what in ("cmdline", "environ")
    )
    process.send_signal(signal.SIGTERM)
    shown += b"".join(process.communicate())
    assert b"HVDLITE_SECRET_FD=" in shown
    for form in (secret, secret.hex().encode(), secret.hex().upper().encode()):
        assert form not in shown


def _with_ssh(far: FarJob, go: str = "") -> dict[str, str]:
    """An environment in which plain `ssh` finds the hosts, as soon as there is a file of that
    name."""
    program = far.job.directory / "bin" / "ssh"
    program.parent.mkdir()
    wait = f"until [ -e {far.job.directory / go} ]; do sleep 0.1; done" if go else ""
    program.write_text(f'#!/bin/sh\n{wait}\nexec /usr/bin/ssh -F {far.hosts.config} "$@"\n')
    program.chmod(0o755)
    return {"PATH": f"{program.parent}:{os.environ['PATH']}"}


def test_a_function_runs_on_other_hosts(far: FarJob) -> None:
    script = far.job.script(
        "import hvdlite\n"
        "def add(x):\n"
        "    import os, numpy, hvdlite as hvd\n"
        "    hvd.init()\n"
        "    print('hello')\n"
        "    total = hvd.allreduce(numpy.full(4, x + hvd.rank()), op=hvd.Sum)[0]\n"
        "    return os.environ['HOROVOD_HOSTNAME'], float(total)\n"
        "print(hvdlite.run(add, (1.0,), num_proc=3, hosts='a:2,b:1'))\n"
        "def fail():\n"
        "    import os, signal\n"
        "    if os.environ['HVDLITE_RANK'] == '2': raise ValueError('no data')\n"
        "    signal.pause()\n"
        "try: hvdlite.run(fail, num_proc=3, hosts='a:2,b:1')\n"
        "except RuntimeError as error: print(repr(error.__cause__), error)\n"
    )
    done = subprocess.run(
        [*far.job.prefix, PYTHON, script],
        env=far.job.environment(**_with_ssh(far)),
        capture_output=True,
    )
    assert done.returncode == 0, done.stderr
    said = done.stdout.decode()
    assert said.count("<stdout>:hello\n") == 3
    assert "[('a', 6.0), ('a', 6.0), ('b', 6.0)]" in said
    assert "ValueError('no data') rank 2 on b raised ValueError: no data" in said
    assert far.job.wait_until_gone(3) == []


def test_on_a_terminal_one_sees_how_far_the_hosts_are(far: FarJob) -> None:
    command = "printf half; until [ -e 'half seen' ]; do sleep 0.05; done"
    shown = Watched(far.job, "-H", "a:1,b:1", "sh", "-c", command, **_with_ssh(far, "seen"))
    shown.watch(r"^hvdliterun: connecting \(2 of 2\): a, b$")
    (far.job.directory / "seen").touch()
    shown.watch(r"(?s)half.*half")
    (far.job.directory / "half seen").touch()
    end = shown.watch()
    assert shown.process.returncode == 0
    assert sorted(end.splitlines()) == ["[0]<stdout>:half", "[1]<stdout>:half"]


# --- ranks that fail


def test_the_first_failing_rank_gives_status_and_last_line(far: FarJob) -> None:
    script = far.job.script(
        "import os\nif os.environ['HVDLITE_RANK'] == '3':\n    raise ValueError('bad luck')\n"
        + WAIT
    )
    done = far.run("-H", "a:2,b:2", PYTHON, script)
    assert done.returncode == 1
    assert last_line(done.stderr) == (
        "hvdliterun: rank 3 on b exited with code 1: ValueError: bad luck at script.py:3. All "
        "other ranks have ended, too."
    )
    assert far.job.wait_until_gone(3) == []


def test_a_killed_rank_counts_as_128_and_the_signal(far: FarJob) -> None:
    done = far.run("-H", "a:1,b:1", "sh", "-c", "[ $HVDLITE_RANK = 0 ] && kill -SEGV $$; sleep 600")
    assert done.returncode == 139
    assert last_line(done.stderr).startswith("hvdliterun: rank 0 on a was killed by SIGSEGV")


def test_a_command_that_is_not_there(far: FarJob) -> None:
    done = far.run("-H", "a:1,b:1", "no-such-program")
    assert done.returncode == 127
    assert "cannot start 'no-such-program': No such file or directory" in last_line(done.stderr)


# --- whatever dies, nothing stays


@pytest.mark.parametrize(
    "number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda n: n.name
)
def test_a_signal_to_the_launcher_ends_all_ranks(far: FarJob, number: signal.Signals) -> None:
    process = far.start_four()
    process.send_signal(number)
    _, err = process.communicate()
    assert process.returncode == 128 + number
    assert last_line(err) == f"hvdliterun: ended by {number.name}; all ranks were ended."
    assert far.job.wait_until_gone(3) == []


def test_sigterm_leaves_time_for_a_checkpoint(far: FarJob) -> None:
    script = far.job.script(
        WAIT_FOR + "import signal, sys\n"
        "def save(*_):\n"
        "    open('saving.' + os.environ['HVDLITE_RANK'], 'w').close()\n"
        "    wait_for('go on')\n    print('saved', flush=True)\n    sys.exit(0)\n"
        "signal.signal(signal.SIGTERM, save)\n" + READY
    )
    process = far.start("-H", "a:1,b:1", "--grace-seconds", PATIENT, PYTHON, script)
    far.job.wait_ready(2)
    process.send_signal(signal.SIGTERM)
    far.job.wait_for_files(["saving.0", "saving.1"])
    (far.job.directory / "go on").touch()
    out, _ = ended(process, 143)
    assert prefixed(out, 0) == prefixed(out, 1) == ["saved"]


def test_the_grace_period_can_be_chosen(far: FarJob) -> None:
    script = far.job.script(
        "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + READY
    )
    process = far.start("-H", "a:1,b:1", "--grace-seconds", "0.2", PYTHON, script)
    far.job.wait_ready(2)
    asked = time.monotonic()
    process.send_signal(signal.SIGTERM)
    process.communicate()
    assert time.monotonic() - asked >= 0.2


@pytest.mark.parametrize("number", [signal.SIGUSR1, signal.SIGUSR2], ids=lambda n: n.name)
def test_a_batch_systems_warning_reaches_the_ranks_and_not_their_children(
    far: FarJob, number: signal.Signals
) -> None:
    script = far.job.script(
        "import os, signal, subprocess, sys\n"
        "child = subprocess.Popen(['sleep', '600'])\n"
        f"signal.pthread_sigmask(signal.SIG_BLOCK, [{int(number)}])\n"  # until it is waited for
        "rank = os.environ['HVDLITE_RANK']\n"
        "open(f'ready.{rank}', 'w').close()\n"
        f"signal.sigwait([{int(number)}])\n"
        "print('warned', child.poll(), flush=True)\n"
        "child.kill()\n"
    )
    process = far.start("-H", "a:1,localhost:1", PYTHON, script)
    far.job.wait_ready(2)
    process.send_signal(number)
    out, _ = ended(process)
    assert prefixed(out, 0) == prefixed(out, 1) == ["warned None"]


def test_kill_9_of_the_launcher_ends_all_hosts(far: FarJob) -> None:
    process = far.start_four()
    process.kill()
    assert far.job.wait_until_gone(3) == []


# How far a host is when something happens to the launcher.
PHASES = ("connecting", "starting Python", "looking for the store", "ready", "running")


def launcher_that(far: FarJob, does: str, first: str = "") -> None:
    """`does`: a statement for when a host (`self`) has come to a phase (`value`). `first`: one for
    the beginning."""
    far.job.launcher = [
        far.job.script(
            "import os, sys\nfrom types import SimpleNamespace\n"
            "from hvdlite.launch import cli\nfrom hvdlite.launch.spawn import ssh\n"
            "def note(self, name, value):\n"
            "    object.__setattr__(self, name, value)\n"
            f"    if name == 'phase':\n        {does}\n"
            f"ssh.RemoteRanks.__setattr__ = note\nreached = []\n{first}\n"
            "sys.exit(cli.main())\n",
            "launcher.py",
        )
    ]


@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGKILL, -signal.SIGKILL), (signal.SIGINT, 130)]
)
def test_a_launcher_that_is_ended_while_it_starts_leaves_nothing(
    far: FarJob, number: int, status: int
) -> None:
    for phase in PHASES:
        launcher_that(far, f"if value == {phase!r}: os.kill(os.getpid(), {int(number)})")
        assert far.run("-H", "a:1,b:1", "sleep", "600").returncode == status, phase
        assert far.job.wait_until_gone(3) == []


@pytest.mark.parametrize(
    ("victim", "said"),
    [
        (("ssh", "-T", "a"), "hvdliterun: host a was lost: ssh was killed by signal 9"),
        (("-m", "hvdlite.launch.agent"), "was lost: ssh ended with status 255"),
    ],
    ids=["ssh", "agent"],
)
def test_kill_9_of_what_stands_between_ends_the_job(
    far: FarJob, victim: tuple[str, ...], said: str
) -> None:
    process = far.start_four()
    os.kill([pid for pid in far.pids(*victim) if pid != process.pid][0], signal.SIGKILL)
    _, err = ended(process, 255)
    assert said in last_line(err)
    assert far.job.wait_until_gone(3) == []


def test_kill_9_of_a_far_guardian_ends_the_job(far: FarJob) -> None:
    process = far.start_four()
    os.kill(far.pids("guardian.py")[0], signal.SIGKILL)
    _, err = process.communicate()
    assert process.returncode != 0
    assert "guardian of the ranks was killed" in last_line(err)
    assert far.job.wait_until_gone(3) == []


def _environ(pid: int) -> bytes:
    return Path(f"/proc/{pid}/environ").read_bytes()


def _where(pid: int) -> bytes:
    """Which of the far hosts a process is on."""
    return _environ(pid).partition(b"SSH_CONNECTION=")[2].split()[2]


# Both, where the other host is held up for longer than this launcher's patience.
NO_ANSWER = (
    r"(Host [ab] did not answer; its|Hosts [ab], [ab] did not answer; their) ranks may still run\.$"
)


def _frozen_agent(far: FarJob) -> tuple[subprocess.Popen[bytes], int]:
    """A launcher with less patience, and an agent that is stopped."""
    launcher_that(far, "pass", "ssh.guardian.KILL_SECONDS = ssh._MARGIN_SECONDS = 0.5")
    process = far.start_four()
    agent = far.pids("-m", "hvdlite.launch.agent")[0]
    os.kill(agent, signal.SIGSTOP)
    return process, agent


def test_two_signals_end_a_launcher_whose_agent_is_frozen(far: FarJob) -> None:
    process, agent = _frozen_agent(far)
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGTERM)
    _, err = ended(process, 255)
    assert re.search(NO_ANSWER, last_line(err))
    os.kill(agent, signal.SIGCONT)  # there is nobody to serve any more
    assert far.job.wait_until_gone(3) == []


def test_a_rank_that_fails_ends_a_launcher_whose_agent_is_frozen(far: FarJob) -> None:
    process, agent = _frozen_agent(far)
    there = [
        pid
        for pid in far.pids("script.py")
        if pid != process.pid and b"HVDLITE_RANK=" in _environ(pid)
    ]
    os.kill(next(pid for pid in there if _where(pid) != _where(agent)), signal.SIGKILL)
    _, err = ended(process, 255)
    assert "was killed by SIGKILL" in last_line(err)
    assert re.search(NO_ANSWER, last_line(err))
    os.kill(agent, signal.SIGCONT)
    assert far.job.wait_until_gone(3) == []


def test_a_far_guardian_that_is_stopped_holds_nothing_up(far: FarJob) -> None:
    process = far.start_four()
    os.kill(far.pids("guardian.py")[0], signal.SIGSTOP)
    process.send_signal(signal.SIGTERM)
    _, err = ended(process, 143)
    assert last_line(err) == "hvdliterun: ended by SIGTERM; all ranks were ended."
    assert far.job.wait_until_gone(3) == []


CUT = """
import socket, threading, time
from hvdlite.rendezvous import server
def cut():
    while not os.path.exists("cut"): time.sleep(0.01)  # poll
    (store,) = server._servers
    connections = list(store._loop._connections)
    print(len(connections), "connections", flush=True)
    linger = bytes([1, 0, 0, 0, 0, 0, 0, 0])
    connections[0].sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
    connections[0].sock.shutdown(socket.SHUT_RDWR)
threading.Thread(target=cut, daemon=True).start()
"""


def test_a_host_that_gives_up_by_itself_says_why(far: FarJob) -> None:
    launcher_that(far, "pass", CUT)
    process = far.start_four()
    (far.job.directory / "cut").touch()
    out, err = process.communicate()
    assert out == b"2 connections\n"  # the agents'
    assert process.returncode == 255
    assert re.search(
        r"host [ab] was lost: the agent's connection with the launcher's store at \S+ has ended: "
        r"it was closed\. All other",
        last_line(err),
    )
    assert far.job.wait_until_gone(3) == []


def test_a_closed_terminal_ends_the_job(far: FarJob) -> None:
    script = far.job.script(READY)
    command = [*far.job.prefix, PYTHON, "-m", "hvdlite.launch", f"--ssh-args=-F {far.hosts.config}"]
    pid, terminal = pty.fork()
    if pid == 0:
        # under nohup it is ignored, and children would inherit that
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
        os.chdir(far.job.directory)
        words = [*command, "-H", "a:1,b:1", PYTHON, script]
        os.execvpe(words[0], words, far.job.environment())
    try:
        far.job.wait_ready(2)
    finally:
        os.close(terminal)
    assert os.waitpid(pid, 0)[1] != 0
    assert far.job.wait_until_gone(3) == []


_GOES_ON = """
import os, numpy, hvdlite as hvd
hvd.init()
for step in range(10**9):
    assert hvd.allreduce(numpy.ones(1000), op=hvd.Sum)[7] == hvd.size()
    open(f"ready.{hvd.rank()}", "w").close()
    if step % 100 == 0 and hvd.rank() == 0:
        os.rename(open("step.new", "w").name, f"step.{step // 100}")
    if hvd.allreduce(numpy.array(os.path.exists("enough")), op=hvd.Max): break
"""


def test_an_outage_that_is_shorter_than_the_heartbeats_limit_ends_nothing(
    job: Job, network: Network, tmp_path: Path
) -> None:
    """Neither the ranks' links, nor ssh, nor the agent's connection with the store."""
    outage, limit = 4.5, 5
    job.prefix = network.prefix(-1)
    with sshd.SshHosts(network, "abc", tmp_path, f"{MARK}={job.mark}") as hosts:
        process = FarJob(job, hosts).start(
            "-H", "a:1,b:1", PYTHON, job.script(_GOES_ON), HVDLITE_HEARTBEAT_SECONDS=str(limit)
        )
        job.wait_ready(2)
        network.pull_the_cable(1)
        time.sleep(outage)  # span: the outage
        network.plug_the_cable_in(1)
        steps = len(list(job.directory.glob("step.*")))
        # span: until an end that was decided during the outage would have come
        time.sleep(limit - outage + 2)
        wait_until(
            lambda: len(list(job.directory.glob("step.*"))) > steps or process.poll() is not None
        )
        (job.directory / "enough").touch()
        ended(process)


@pytest.mark.costly
def test_a_pulled_cable_ends_both_sides(job: Job, network: Network, tmp_path: Path) -> None:
    job.prefix = network.prefix(-1)
    with sshd.SshHosts(network, "abc", tmp_path, f"{MARK}={job.mark}") as hosts:
        process = FarJob(job, hosts).start_four("a:2,c:2", HVDLITE_HEARTBEAT_SECONDS="3")
        network.pull_the_cable(2)  # c is used by no other test
        _, err = ended(process, 255)
        assert last_line(err).startswith("hvdliterun: host c was lost: ssh ended with status 255")
        # Nothing told the agent; it has noticed by itself.
        assert job.wait_until_gone(10) == []


# --- what cannot work says so, before anything has started


@pytest.mark.parametrize(
    ("line", "status", "text"),
    [
        (
            "-H a:1,nowhere:1",
            1,
            "host nowhere: no such host: check -H or the hostfile (ssh: Could ",
        ),
        ("-H a:1 -p 9", 1, "host a: no ssh server listens there: is sshd running, is --ssh-port "),
        ("-H a:1 --network-interfaces nope0", 1, "There is no interface 'nope0' with an address"),
        ("-np 3 -H a:1,b:1", 2, "-np 3 is more than the 2 slots of the hosts"),
    ],
)
def test_bad_arguments(far: FarJob, line: str, status: int, text: str) -> None:
    done = far.run(*line.split(), "touch", "started")
    assert done.returncode == status
    assert text in last_line(done.stderr)
    assert not (far.job.directory / "started").exists()


def test_a_login_that_is_refused(far: FarJob) -> None:
    (far.hosts.config.parent / "authorized").write_text("")
    done = far.run("-H", "a:1,b:1", "touch", "started")
    assert done.returncode == 1
    # Whichever host says so first.
    for line in done.stderr.decode().strip().splitlines():
        host = line.split(":")[1].removeprefix(" host ")
        assert line.startswith(
            f"hvdliterun: host {host}: it refused the login: `ssh {host} true` has to work without "
            "a password"
        )
    assert not (far.job.directory / "started").exists()


def test_a_host_key_that_is_not_known(far: FarJob) -> None:
    (far.hosts.config.parent / "known").write_text("")
    done = far.run("-H", "a:1", "touch", "started")
    assert done.returncode == 1
    assert "its host key is unknown here, or has changed: run `ssh a` once by hand" in last_line(
        done.stderr
    )


def test_a_far_host_without_this_python_or_without_hvdlite(far: FarJob) -> None:
    # The same file system is behind all hosts here; so the launcher runs by a Python that "they" do
    # not have.
    only_here = far.job.directory / "only-here"
    main = (
        "import sys; from hvdlite.launch.cli import main; sys.executable = sys.argv.pop(1); "
        "sys.exit(main())"
    )
    command = [*far.job.prefix, PYTHON, "-c", main]
    flags = [f"--ssh-args=-F {far.hosts.config}", "-H", "a:1", "touch", "started"]

    def said_by(interpreter: str) -> str:
        done = subprocess.run(
            [*command, interpreter, *flags], env=far.job.environment(), capture_output=True
        )
        assert done.returncode == 1
        return last_line(done.stderr)

    assert f"host a: there is no {only_here}: the same Python must be at the same place" in said_by(
        str(only_here)
    )
    only_here.write_text('#!/bin/sh\necho "$0: No module named hvdlite" >&2; exit 1\n')
    only_here.chmod(0o755)
    assert f"host a: hvdlite is not installed there for {only_here}" in said_by(str(only_here))


def test_a_host_that_does_not_answer_is_named_with_its_phase(far: FarJob) -> None:
    silent = far.job.directory / "silent"
    silent.write_text("#!/bin/sh\nexec cat >/dev/null\n")
    silent.chmod(0o755)
    # The time is over when both have come so far.
    launcher_that(
        far,
        "reached.append(value)",
        "ssh.time = SimpleNamespace(monotonic=lambda: 1000.0 if reached.count('starting Python') "
        "== 2 else 0.0)\n"
        f"sys.executable = {str(silent)!r}",
    )
    done = far.run("-H", "a:1,b:1", "--start-timeout", "60", "true")
    assert done.returncode == 1
    assert done.stderr.decode().strip().splitlines() == [
        f"hvdliterun: host {host}: still starting Python after 60 s (--start-timeout)"
        for host in "ab"
    ]
    assert far.job.wait_until_gone(3) == []


def test_on_kubernetes_a_host_may_come_late(job: Job, network: Network, tmp_path: Path) -> None:
    job.prefix = network.prefix(-1)
    with sshd.SshHosts(network, "ab", tmp_path, f"{MARK}={job.mark}") as hosts:
        far = FarJob(job, hosts)
        names = hosts.config.read_text()
        hosts.config.write_text(names.replace("HostName", "HostName not-yet-resolved.invalid #"))
        process = far.start(
            "-H", "a:1,b:1", "--verbose", "sh", "-c", "echo fine", K_MPI_JOB_ROLE="launcher"
        )
        assert process.stderr is not None
        line = b""
        while b"trying again" not in line:
            line = process.stderr.readline()
            assert line, "it gave up"
        assert b"no such host" in line
        whole = hosts.config.with_suffix(".new")  # an ssh may be reading the file just now
        whole.write_text(names)
        whole.rename(hosts.config)
        out, err = process.communicate()
    assert process.returncode == 0, err
    assert sorted(out.splitlines()) == [b"[0]<stdout>:fine", b"[1]<stdout>:fine"]


def test_a_folder_that_is_not_there_is_said(far: FarJob, tmp_path: Path) -> None:
    (tmp_path / "only here").mkdir()
    # All hosts have the same files here: the launcher is made to believe that it is in a folder of
    # its own.
    main = (
        "import os, sys; from hvdlite.launch.cli import main; from hvdlite.launch import direct\n"
        "os.chdir('only here'); real = os.getcwd(); os.getcwd = lambda: real + ' no more'; "
        "sys.exit(main())"
    )
    command = [*far.job.prefix, PYTHON, "-c", main, f"--ssh-args=-F {far.hosts.config}"]
    done = subprocess.run(
        [*command, "-H", "a:1", "pwd"],
        env=far.job.environment(),
        cwd=tmp_path,
        capture_output=True,
    )
    assert done.returncode == 0, done.stderr
    assert b"hvdliterun: host a: cannot go to the launcher's working directory: " in done.stderr
    assert b"only here no more'; ranks start in /" in done.stderr
