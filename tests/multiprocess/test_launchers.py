"""init() under the launchers of others. They are the real ones, but for srun, whose variables are
set here, and horovodrun, whose server is a few lines of others.py."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
from collections.abc import Iterator, Sequence
from importlib.util import find_spec

import pytest
from launched import Job
from mpis import end_well, finish, start
from others import (
    PROGRAM,
    PYTHON,
    TWICE,
    TWO_HOSTS,
    expect_places,
    free_port,
    horovods_variables,
    on_one_host,
    ports_of,
    ranks,
    serve_keys,
    step,
    step_of_two_hosts,
    step_with_free_ports,
    stop_server,
    torchs_variables,
)

from hvdlite.rendezvous import StoreServer

_DOOR = "Every program that reaches port"
WITH_TORCH = pytest.mark.skipif(find_spec("torch") is None, reason="torch is not installed")


# --- no launcher


def test_plain_python_is_alone_and_opens_no_socket(job: Job) -> None:
    script = job.script(
        PROGRAM + "import socket\n"
        "def refuse(*a, **k): raise AssertionError('a socket')\n"
        "socket.socket.bind = socket.socket.connect = refuse\n"
        "turn()\n"
        "links = [os.readlink(f'/proc/self/fd/{fd}') for fd in os.listdir('/proc/self/fd')\n"
        "         if os.path.exists(f'/proc/self/fd/{fd}')]\n"
        "print([link for link in links if link.startswith('socket')])\n"
        "hvd.shutdown()\nturn()\n"
    )
    codes, output = finish(start(job, [PYTHON, script]))
    assert (codes, output.strip()) == ([0], "[]"), output
    expect_places(job, on_one_host(1))


# --- torchrun


def torchrun(*arguments: str) -> list[str]:
    return [PYTHON, "-m", "torch.distributed.run", "--standalone", *arguments]


def two_agents(job: Job, script: str, here: str) -> list[subprocess.Popen[bytes]]:
    """torchrun on one host that pretends to be two, with a rank on each."""
    meeting = [
        f"--rdzv-endpoint={here}:{free_port()}",
        "--rdzv-backend=c10d",
        f"--local-addr={here}",
    ]
    agent = [PYTHON, "-m", "torch.distributed.run", "--nnodes=2", "--nproc-per-node=1"]
    return [start(job, [*agent, *meeting, script], HVDLITE_HOST_ID=host) for host in "ab"]


@WITH_TORCH
@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.watchdog(120)
def test_torchrun(job: Job, size: int) -> None:
    end_well(start(job, torchrun(f"--nproc-per-node={size}", job.script(TWICE))), seconds=100)
    expect_places(job, on_one_host(size))


@WITH_TORCH
@pytest.mark.watchdog(120)
def test_torchrun_starts_all_ranks_anew_when_one_fails(job: Job) -> None:
    script = job.script(
        TWICE + "import time\nattempt = os.environ['TORCHELASTIC_RESTART_COUNT']\n"
        "open(f'attempt.{attempt}.{hvd.rank()}', 'w').close()\n"
        "if attempt == '0' and hvd.rank() == 1:\n"
        # Or the agent ends rank 0 before it has left its traces.
        "    while not os.path.exists('attempt.0.0'): time.sleep(0.01)\n"  # poll
        "    os._exit(3)\n"
        "hvd.barrier()\n"
    )
    end_well(start(job, torchrun("--nproc-per-node=2", "--max-restarts=1", script)), seconds=100)
    expect_places(job, on_one_host(2), turns=4)
    assert sorted(path.name for path in job.directory.glob("attempt.*")) == [
        "attempt.0.0", "attempt.0.1", "attempt.1.0", "attempt.1.1",
    ]  # fmt: skip


@WITH_TORCH
@pytest.mark.watchdog(120)
def test_a_rank_of_torchrun_that_is_killed_takes_all_with_it(job: Job) -> None:
    script = job.script(
        PROGRAM + "turn()\nhvd.barrier()\nif hvd.rank() == 1: os.kill(os.getpid(), 9)\n"
        "try:\n    hvd.barrier()\n"
        "except hvd.HorovodInternalError as error:\n"
        "    open('told', 'w').write(f'{type(error).__name__} {error.rank}')\n    raise\n"
    )
    codes, output = finish(start(job, torchrun("--nproc-per-node=2", script)), seconds=100)
    assert codes == [1], output
    assert not job.wait_until_gone(5.0)
    # The agent may be quicker than rank 0, also between its opening the file and its writing.
    told = job.directory / "told"
    assert not told.exists() or told.read_text() in ("", "PeerLostError 1")


@pytest.mark.costly
@WITH_TORCH
@pytest.mark.watchdog(150)
def test_two_torchruns_at_once_keep_apart(
    job: Job, tmp_path_factory: pytest.TempPathFactory
) -> None:
    other = Job(tmp_path_factory.mktemp("other"))
    processes = [start(j, torchrun("--nproc-per-node=2", j.script(TWICE))) for j in (job, other)]
    end_well(*processes, seconds=120)
    for each in (job, other):
        expect_places(each, on_one_host(2))
    assert not other.wait_until_gone(1.0)


@pytest.mark.costly
@WITH_TORCH
@pytest.mark.watchdog(120)
def test_two_agents_of_torchrun(job: Job) -> None:
    end_well(*two_agents(job, job.script(TWICE), "127.0.0.1"), seconds=100)
    expect_places(job, TWO_HOSTS)


_THIEF = (
    PROGRAM
    + """
from datetime import timedelta
from torch.distributed import TCPStore
hvd.init()
hvd.barrier()  # which rank 0 enters when its init() is over
store = TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), is_master=False,
                 timeout=timedelta(seconds=20), wait_for_workers=False)
attempt = " ".join(f"{name}={os.environ[name]}"
                   for name in ("TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT"))
with open(f"there.{hvd.rank()}", "w") as file:
    file.write(str(store.check([f"hvdlite/{attempt}/store"])))
hvd.barrier()
hvd.shutdown()
turn()
hvd.shutdown()
turn()
"""
)


@pytest.mark.costly
@WITH_TORCH
@pytest.mark.parametrize("hosts", [1, 2])
@pytest.mark.watchdog(120)
def test_once_all_have_come_torchruns_store_knows_no_secret(job: Job, hosts: int) -> None:
    """It is open to every program that reaches its port."""
    script = job.script(_THIEF)
    if hosts == 1:
        agents = [start(job, torchrun("--nproc-per-node=2", script))]
    else:
        agents = two_agents(job, script, socket.gethostname())
    codes, output = finish(*agents, seconds=100)
    assert set(codes) == {0}, output
    assert [(job.directory / f"there.{rank}").read_text() for rank in range(2)] == ["False"] * 2
    expect_places(job, on_one_host(2) if hosts == 1 else TWO_HOSTS)


def test_torchs_variables_without_its_agent(job: Job) -> None:
    end_well(*ranks(job, 2, job.script(TWICE), torchs_variables()))
    expect_places(job, on_one_host(2))


def test_a_launcher_that_sees_other_hosts_than_there_are_is_told(job: Job) -> None:
    """Two agents of torchrun on one host: each calls its rank the first."""
    variables = torchs_variables() | {"LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1"}
    script = job.script(TWICE)
    output = end_well(*ranks(job, 2, script, variables))
    expect_places(job, on_one_host(2))
    assert (
        "the launcher that set MASTER_ADDR says that rank 0 is local rank 0 of 1. hvdlite counts 2 "
        "of the job's ranks" in output
    )
    assert output.count("counts") == 1, output
    codes, output = finish(*ranks(job, 2, script, variables, HVDLITE_HOST_ID="x"))
    assert codes == [0, 0] and "counts" not in output, output
    variables |= {"LOCAL_RANK": "{rank}", "LOCAL_WORLD_SIZE": "2"}
    codes, output = finish(*ranks(job, 2, script, variables, HVDLITE_CPU_OPERATIONS="net"))
    assert codes == [0, 0] and "counts" not in output, output


def _secret_file(job: Job, name: str, digits: str) -> str:
    path = job.directory / name
    path.write_text(digits)
    path.chmod(0o600)
    return str(path)


def test_a_secret_in_a_file_closes_the_door(job: Job) -> None:
    """Between hosts, where what others can look up would do otherwise."""
    variables = step_of_two_hosts() | {
        "HVDLITE_SECRET_FILE": _secret_file(job, "secret", "ab" * 32)
    }
    codes, output = finish(*ranks(job, 2, job.script(TWICE), variables))
    assert codes == [0, 0] and _DOOR not in output, output
    expect_places(job, TWO_HOSTS)


@pytest.mark.parametrize("other", ["another", "none"])
def test_a_rank_with_another_secret_is_told_at_once(job: Job, other: str) -> None:
    variables = torchs_variables()
    script = job.script(TWICE)
    given = variables | {"HVDLITE_SECRET_FILE": _secret_file(job, "secret", "ab" * 32)}
    first = ranks(job, 1, script, given, HVDLITE_START_TIMEOUT="600")[0]
    mine = (
        {"HVDLITE_SECRET_FILE": _secret_file(job, "other", "cd" * 32)} if other == "another" else {}
    )
    second = start(
        job, [PYTHON, script], **variables | mine | {"RANK": "1"}, HVDLITE_START_TIMEOUT="600"
    )
    _is_told(
        first,
        second,
        "was given another secret than rank 0"
        if mine
        else "rank 0 was given a secret and this rank 1 was not",
    )


def _is_told(first: subprocess.Popen[bytes], second: subprocess.Popen[bytes], what: str) -> None:
    """Rank 1 ends with this sentence, and neither rank shows a secret."""
    codes, output = finish(second)
    assert codes == [1] and what in output, output
    first.terminate()  # it would wait for its rank 1
    output += finish(first)[1]
    assert "abab" not in output and "cdcd" not in output.replace("abcd", "")


# --- Slurm


@pytest.mark.parametrize("secret", [None, "ab" * 32], ids=["derived key", "HVDLITE_SECRET"])
def test_srun(job: Job, secret: str | None) -> None:
    extra = {} if secret is None else {"HVDLITE_SECRET": secret}
    end_well(*ranks(job, 3, job.script(TWICE), step(3), **extra))
    expect_places(job, on_one_host(3))


@pytest.mark.parametrize("secret", [None, "ab" * 32], ids=["derived key", "HVDLITE_SECRET"])
def test_srun_on_two_hosts(job: Job, secret: str | None) -> None:
    extra = {} if secret is None else {"HVDLITE_SECRET": secret}
    output = end_well(*ranks(job, 2, job.script(TWICE), step_of_two_hosts(), **extra))
    expect_places(job, TWO_HOSTS)
    # Said once, and only where it is so.
    assert output.count(_DOOR) == (1 if secret is None else 0), output


def test_strangers_at_the_ports_are_recognised(job: Job) -> None:
    """One that says nothing, and another job's store."""
    variables = step_with_free_ports()
    first, second, *_ = ports_of(variables)
    silent = socket.create_server(("", first))
    with silent, StoreServer(os.urandom(32), "0.0.0.0", port=second):
        codes, output = finish(*ranks(job, 2, job.script(TWICE), variables))
    assert codes == [0, 0], output
    expect_places(job, TWO_HOSTS)


def test_two_steps_at_once_keep_apart(job: Job, tmp_path_factory: pytest.TempPathFactory) -> None:
    other = Job(tmp_path_factory.mktemp("other"))
    processes = [p for j in (job, other) for p in ranks(j, 2, j.script(TWICE), step(2))]
    codes, output = finish(*processes)
    assert codes == [0] * 4, output
    for each in (job, other):
        expect_places(each, on_one_host(2))
    assert not other.wait_until_gone(1.0)


def test_when_all_ports_are_taken_rank_0_says_so(job: Job) -> None:
    variables = step_with_free_ports()
    taken = [socket.create_server(("", port)) for port in ports_of(variables)]
    try:
        process = ranks(job, 1, job.script(TWICE), variables)[0]
        codes, output = finish(process)
    finally:
        for sock in taken:
            sock.close()
    assert codes == [1] and re.search("rank 0 of 2, started by srun, .* are all taken", output), (
        output
    )


def test_a_rank_0_that_never_comes_is_waited_for_only_so_long(job: Job) -> None:
    variables = {k: v.format(rank=1) for k, v in step_with_free_ports().items()}
    # Its time is over when it has knocked at its four ports.
    clock = (
        "from types import SimpleNamespace\nfrom hvdlite.rendezvous import addresses, client\n"
        "knocked, connect = [], client.StoreClient\n"
        "def knock(address, *given):\n"
        "    try:\n        return connect(address, *given)\n"
        "    finally:\n        knocked.append(address)\n"
        "client.StoreClient = knock\n"
        "addresses.time = SimpleNamespace(monotonic=lambda: 1000.0 if len(set(knocked)) == 4 "
        "else 0.0)\n"
    )
    codes, output = finish(
        start(job, [PYTHON, job.script(clock + TWICE)], HVDLITE_START_TIMEOUT="60", **variables)
    )
    assert codes == [1]
    assert (
        "rank 1 of 2, started by srun, could not meet the other ranks: no answer within 60 s"
        in output
    ), output
    for port in ports_of(variables):
        assert f"{socket.gethostname()} port {port}: [Errno 111] Connection refused" in output


def test_ctrl_c_ends_the_wait_for_rank_0(job: Job) -> None:
    variables = {k: v.format(rank=1) for k, v in step_of_two_hosts().items()}
    script = job.script(
        PROGRAM + "from hvdlite.rendezvous import addresses\nreach = addresses.reach\n"
        "def waits(*given):\n    open('waits', 'w').close()\n    return reach(*given)\n"
        "addresses.reach = waits\nturn()\n"
    )
    process = start(job, [PYTHON, script], **variables)
    job.wait_for_files(["waits"])
    process.send_signal(signal.SIGINT)
    codes, output = finish(process, seconds=15)
    assert codes == [-signal.SIGINT] and "KeyboardInterrupt" in output, output


def test_a_rank_1_that_dies_before_it_has_come_does_not_hold_rank_0_for_ever(job: Job) -> None:
    variables = step(2)
    first = ranks(job, 1, job.script(TWICE), variables, HVDLITE_START_TIMEOUT="1")
    codes, output = finish(*first, seconds=15)
    assert codes == [1] and "HVDLITE_START_TIMEOUT" in output, output


# --- horovodrun


@pytest.fixture
def horovodrun(job: Job) -> Iterator[dict[str, str]]:
    yield serve_keys(job)
    stop_server(job)


@pytest.mark.parametrize("hosts", ["one host", "hosts that it does not tell"])
def test_horovodrun(job: Job, horovodrun: dict[str, str], hosts: str) -> None:
    variables = horovodrun if hosts == "one host" else horovodrun | {"HOROVOD_LOCAL_SIZE": ""}
    end_well(*ranks(job, 2, job.script(TWICE), variables))
    expect_places(job, on_one_host(2))


def test_a_horovodrun_that_is_gone_is_told(job: Job) -> None:
    variables = horovods_variables(free_port()) | {"HOROVOD_LOCAL_SIZE": ""}
    codes, output = finish(*ranks(job, 2, job.script(TWICE), variables, HVDLITE_START_TIMEOUT="1"))
    assert codes == [1, 1]
    assert (
        output.count("horovodrun's rendezvous server at 127.0.0.1 port") >= 2
        and "Connection refused" in output
    )


def test_what_hinders_rank_0_all_ranks_are_told_at_once(
    job: Job, horovodrun: dict[str, str]
) -> None:
    variables = horovodrun | {"HOROVOD_LOCAL_SIZE": "", "HVDLITE_NETWORK_INTERFACES": "nonesuch0"}
    codes, output = finish(
        *ranks(job, 2, job.script(TWICE), variables, HVDLITE_START_TIMEOUT="600")
    )
    assert codes == [1, 1]
    assert "rank 0 could not open the job's store: There is no interface 'nonesuch0'" in output, (
        output
    )


# --- the arguments of init()


def explicit(job: Job, secrets: Sequence[str], **extra: str) -> list[subprocess.Popen[bytes]]:
    script = job.script(
        PROGRAM + "rank, port, secret = int(sys.argv[1]), sys.argv[2], sys.argv[3]\n"
        "where = dict(rank=rank, size=2, rendezvous=f'localhost:{port}', secret=secret)\n"
        "turn(**where)\nhvd.shutdown()\nturn(**where)\n"
    )
    port = str(free_port())
    return [
        start(job, [PYTHON, script, str(rank), port, secret], **extra)
        for rank, secret in enumerate(secrets)
    ]


def test_arguments(job: Job) -> None:
    end_well(*explicit(job, ["ab" * 32] * 2))
    expect_places(job, on_one_host(2))


def test_arguments_with_different_secrets(job: Job) -> None:
    first, second = explicit(job, ["ab" * 32, "cd" * 32], HVDLITE_START_TIMEOUT="600")
    _is_told(first, second, "does not know this job's secret")
