"""init() under the launchers of others. They are the real ones, but for srun, whose variables are set here, and horovodrun, whose
server is a few lines here."""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from importlib.util import find_spec

import network
import pytest
from launched import Job
from mpis import MPI, finish, leaves_no_shared_memory, mpich, open_mpi, start

from hvdlite.bootstrap import by_ports
from hvdlite.launch.environment import discover
from hvdlite.launch.environment.identity import AtPorts
from hvdlite.rendezvous import StoreServer

PYTHON = sys.executable

# Joins twice, and leaves a line for each time.
PROGRAM = """
import json, os, sys
import numpy as np
import hvdlite as hvd
def turn(**where):
    hvd.init(**where)
    total = hvd.allreduce(np.arange(4.0) + hvd.rank(), op=hvd.Sum).tolist()
    place = [hvd.rank(), hvd.size(), hvd.local_rank(), hvd.local_size(), hvd.cross_rank(), hvd.cross_size()]
    with open(f"report.{hvd.rank()}", "a") as report:
        report.write(json.dumps([place, total]) + "\\n")
"""
TWICE = PROGRAM + "turn()\nhvd.shutdown()\nturn()\n"

WITH_TORCH = pytest.mark.skipif(find_spec("torch") is None, reason="torch is not installed")


@pytest.fixture(autouse=True)
def shared_memory() -> Iterator[None]:
    with leaves_no_shared_memory():
        yield


def expect_places(job: Job, places: Sequence[Sequence[int]], turns: int = 2) -> None:
    """Each rank's line: rank, size, local rank and size, cross rank and size; and the sum over all ranks."""
    size = len(places)
    total = [size * i + size * (size - 1) / 2 for i in range(4)]
    for rank, place in enumerate(places):
        path = job.directory / f"report.{rank}"
        assert path.exists(), f"rank {rank} has told nothing: {os.listdir(job.directory)}"
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        assert lines == [[list(place), total]] * turns
    assert len(list(job.directory.glob("report.*"))) == size


def on_one_host(size: int) -> list[list[int]]:
    return [[rank, size, rank, size, 0, 1] for rank in range(size)]


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


@WITH_TORCH
@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.watchdog(120)
def test_torchrun(job: Job, size: int) -> None:
    codes, output = finish(start(job, torchrun(f"--nproc-per-node={size}", job.script(TWICE))), seconds=100)
    assert codes == [0], output
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
    codes, output = finish(start(job, torchrun("--nproc-per-node=2", "--max-restarts=1", script)), seconds=100)
    assert codes == [0], output
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


@WITH_TORCH
@pytest.mark.watchdog(150)
def test_two_torchruns_at_once_keep_apart(job: Job, tmp_path_factory: pytest.TempPathFactory) -> None:
    other = Job(tmp_path_factory.mktemp("other"))
    processes = [start(j, torchrun("--nproc-per-node=2", j.script(TWICE))) for j in (job, other)]
    codes, output = finish(*processes, seconds=120)
    assert codes == [0, 0], output
    for each in (job, other):
        expect_places(each, on_one_host(2))
    assert not other.wait_until_gone(1.0)


@WITH_TORCH
@pytest.mark.watchdog(120)
def test_two_agents_of_torchrun(job: Job) -> None:
    """On one host that pretends to be two."""
    script = job.script(TWICE)
    meeting = [f"--rdzv-endpoint=127.0.0.1:{free_port()}", "--rdzv-backend=c10d", "--local-addr=127.0.0.1"]
    command = [PYTHON, "-m", "torch.distributed.run", "--nnodes=2", "--nproc-per-node=1", *meeting, script]
    agents = [start(job, command, HVDLITE_HOST_ID=host) for host in "ab"]
    codes, output = finish(*agents, seconds=100)
    assert codes == [0, 0], output
    expect_places(job, TWO_HOSTS)


def ranks(job: Job, size: int, script: str, variables: dict[str, str], **extra: str) -> list[subprocess.Popen[bytes]]:
    """Processes that differ in nothing but `{rank}` in the variables."""
    return [
        start(job, [PYTHON, script], **{k: v.format(rank=rank) for k, v in variables.items()}, **extra)
        for rank in range(size)
    ]


def test_torchs_variables_without_its_agent(job: Job) -> None:
    """As Ray Train and Kubeflow's operator set them."""
    variables = {"RANK": "{rank}", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    codes, output = finish(*ranks(job, 2, job.script(TWICE), variables))
    assert codes == [0, 0], output
    expect_places(job, on_one_host(2))


def test_a_launcher_that_sees_other_hosts_than_there_are_is_told(job: Job) -> None:
    """Two agents of torchrun on one host: each calls its rank the first."""
    variables = {"RANK": "{rank}", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    variables |= {"LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1"}
    script = job.script(TWICE)
    codes, output = finish(*ranks(job, 2, script, variables))
    assert codes == [0, 0], output
    expect_places(job, on_one_host(2))
    assert "torchrun says that rank 0 is local rank 0 of 1, but it shares its host with 2 ranks" in output
    assert output.count("shares its host") == 1, output
    codes, output = finish(*ranks(job, 2, script, variables, HVDLITE_HOST_ID="x"))
    assert codes == [0, 0] and "shares its host" not in output, output


# --- MPI


INITIALISED = {
    "by the program": "from mpi4py import MPI\nassert MPI.COMM_WORLD.size == 2\n",
    "by init": "",
    "by init, because the program told mpi4py not to": "import mpi4py\nmpi4py.rc.initialize = False\n",
    "for one thread": "import mpi4py\nmpi4py.rc.thread_level = 'single'\nfrom mpi4py import MPI\n",
}


@MPI
@pytest.mark.parametrize("first", INITIALISED.values(), ids=INITIALISED)
def test_mpirun(job: Job, mpirun: type, first: str) -> None:
    command, variables = mpirun(2)
    done = "from mpi4py import MPI\nassert MPI.COMM_WORLD.allreduce(1) == 2\n"
    codes, output = finish(start(job, [*command, PYTHON, job.script(first + TWICE + done)], **variables))
    assert codes == [0], output
    expect_places(job, on_one_host(2))


@MPI
def test_three_ranks_of_mpirun(job: Job, mpirun: type) -> None:
    command, variables = mpirun(3)
    codes, output = finish(start(job, [*command, PYTHON, job.script(TWICE)], **variables))
    assert codes == [0], output
    expect_places(job, on_one_host(3))


@MPI
def test_mpiruns_exit_code_is_that_of_the_rank_that_failed(job: Job, mpirun: type) -> None:
    command, variables = mpirun(2)
    # The first barrier: rank 0 has written its report.
    script = job.script(
        PROGRAM + "turn()\nhvd.barrier()\nif hvd.rank() == 1: sys.exit(3)\nhvd.barrier()\nhvd.barrier()\n"
    )
    codes, output = finish(start(job, [*command, PYTHON, script], **variables))
    assert codes in ([3], [1]), output  # rank 0's exception is as real
    expect_places(job, on_one_host(2), turns=1)


@MPI
def test_a_rank_of_mpirun_that_is_killed_takes_all_with_it(job: Job, mpirun: type) -> None:
    command, variables = mpirun(2)
    script = job.script(
        PROGRAM + "turn()\nhvd.barrier()\nif hvd.rank() == 1: os.kill(os.getpid(), 9)\nhvd.barrier()\nhvd.barrier()\n"
    )
    codes, output = finish(start(job, [*command, PYTHON, script], **variables), seconds=20)
    assert codes != [0], output
    assert not job.wait_until_gone(5.0)


@MPI
def test_ctrl_c_ends_the_wait_for_mpis_broadcast(job: Job, mpirun: type) -> None:
    command, variables = mpirun(2)
    script = job.script(
        "from mpi4py import MPI\nimport os, signal, threading, time\nimport hvdlite as hvd\n"
        "from hvdlite.bootstrap import mpi_library\n"
        "if MPI.COMM_WORLD.rank == 0:\n    signal.pause()\n"
        "complete = mpi_library.complete\n"
        "def interrupted(*given):\n"
        "    threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()\n"
        "    complete(*given)\n"
        "mpi_library.complete = interrupted\n"
        "try:\n"
        "    hvd.init()\n"
        "except KeyboardInterrupt:\n    open('interrupted', 'w').close()\n    os._exit(7)\n"
    )
    codes, output = finish(start(job, [*command, PYTHON, script], **variables), seconds=20)
    assert (job.directory / "interrupted").exists(), output
    assert codes in ([7], [9]), output  # MPICH's may tell of the rank that it killed itself then


@MPI
def test_a_rank_under_mpirun_that_never_comes_is_waited_for_only_so_long(job: Job, mpirun: type) -> None:
    command, variables = mpirun(2)
    script = job.script(
        "from mpi4py import MPI\nimport os, time\n"
        "if MPI.COMM_WORLD.rank == 1:\n"
        "    while not os.path.exists('given up'): time.sleep(0.05)\n"  # poll
        "    raise SystemExit\n" + PROGRAM + "try:\n    turn()\nfinally:\n    open('given up', 'w').close()\n"
    )
    codes, output = finish(start(job, [*command, PYTHON, script], HVDLITE_START_TIMEOUT="2", **variables))
    assert codes != [0] and "within 2 s" in output, output


@MPI
def test_mpirun_of_one_mpi_with_the_library_of_another_is_told(job: Job, mpirun: type) -> None:
    """Traps 6 and 9: each process' MPI believes that it is alone; MPICH's library would end it under Open MPI's mpirun."""
    command, variables = mpirun(2)
    other = mpich if mpirun is open_mpi else open_mpi
    codes, output = finish(start(job, [*command, PYTHON, job.script(TWICE)], **variables | other(2)[1]))
    assert codes != [0]
    if mpirun is open_mpi:
        said = "Open MPI's mpirun has started this process as rank [01] of 2, which another MPI cannot join. mpi4py loads MPICH"
    else:
        said = "mpiexec has started this process as rank 1 of 2, but MPI says that it is rank 0 of 1. mpi4py loads Open MPI"
    # Whichever rank is first: mpirun may end the other before it has spoken. MPICH's rank 0 waits for the other until then.
    assert re.search(said, output) and "MPI4PY_MPIABI" in output and "start the program with hvdliterun" in output, (
        output
    )


@MPI
def test_ranks_that_only_mpi_knows_of_do_not_train_alone(job: Job, mpirun: type) -> None:
    command, variables = mpirun(2)
    script = job.script(
        "from mpi4py import MPI\nimport os\n"
        "for name in list(os.environ):\n    if name.startswith(('PMI', 'OMPI', 'MPI_')): del os.environ[name]\n" + TWICE
    )
    codes, output = finish(start(job, [*command, PYTHON, script], **variables))
    assert codes != [0] and "MPI says that there are 2 processes, but no variable" in output, output
    codes, output = finish(start(job, [*command, PYTHON, script], HVDLITE_ALLOW_SINGLETON="1", **variables))
    assert codes == [0], output


@MPI
def test_without_mpi4py_mpirun_is_told_what_to_do(job: Job, mpirun: type) -> None:
    command, variables = mpirun(2)
    job.script("raise ModuleNotFoundError(\"No module named 'mpi4py'\")", "mpi4py.py")
    codes, output = finish(start(job, [*command, PYTHON, job.script(TWICE)], **variables))
    assert codes != [0] and "`pip install 'hvdlite[mpi]'` brings it" in output, output


@MPI
def test_a_store_that_is_there_spares_mpi(job: Job, mpirun: type) -> None:
    """hvdliterun over mpirun: it has opened the store, mpirun gives the numbers."""
    command, variables = mpirun(2)
    job.script("raise ModuleNotFoundError(\"No module named 'mpi4py'\")", "mpi4py.py")
    secret = os.urandom(32)
    with StoreServer(secret) as store:
        given = {"HVDLITE_RENDEZVOUS": "{}:{}".format(*store.address), "HVDLITE_SECRET": secret.hex()}
        codes, output = finish(start(job, [*command, PYTHON, job.script(TWICE)], **variables, **given))
    assert codes == [0], output
    expect_places(job, on_one_host(2))


# --- Slurm


def step(size: int, **changes: str) -> dict[str, str]:
    """What srun sets for `size` tasks on this host."""
    return {
        "SLURM_CLUSTER_NAME": "test",
        "SLURM_JOB_ID": str(os.getpid()),
        "SLURM_STEP_ID": str(time.monotonic_ns() % 1_000_000),
        "SLURM_PROCID": "{rank}",
        "SLURM_LOCALID": "{rank}",
        "SLURM_NODEID": "0",
        "SLURM_STEP_NUM_TASKS": str(size),
        "SLURM_STEP_TASKS_PER_NODE": str(size),
        "SLURM_STEP_NODELIST": socket.gethostname(),
    } | changes


def ports_of(variables: dict[str, str]) -> list[int]:
    meeting = discover({k: v.format(rank=0) for k, v in variables.items()}).meeting
    assert isinstance(meeting, AtPorts)
    return by_ports.candidates(meeting.job)


def step_with_free_ports(size: int) -> dict[str, str]:
    """Of which nobody else has one of the ports."""
    while True:
        variables = step(size)
        with contextlib.suppress(OSError), contextlib.ExitStack() as stack:
            for port in ports_of(variables):
                stack.enter_context(socket.create_server(("127.0.0.1", port)))
            return variables


def free_port() -> int:
    """Not one of those that the system gives to whoever asks for any: it would be somebody's before it is used."""
    while True:
        with (
            contextlib.suppress(OSError),
            socket.create_server(("127.0.0.1", random.randrange(10_000, 20_000))) as sock,
        ):
            return int(sock.getsockname()[1])


@pytest.mark.parametrize("secret", [None, "ab" * 32], ids=["derived key", "HVDLITE_SECRET"])
def test_srun(job: Job, secret: str | None) -> None:
    extra = {} if secret is None else {"HVDLITE_SECRET": secret}
    codes, output = finish(*ranks(job, 3, job.script(TWICE), step(3), **extra))
    assert codes == [0, 0, 0], output
    expect_places(job, on_one_host(3))


def test_srun_on_two_hosts(job: Job) -> None:
    """Both of them this one, so that the store listens on all interfaces and is looked for by name."""
    here = step(3, SLURM_STEP_TASKS_PER_NODE="2,1", SLURM_STEP_NODELIST=f"{socket.gethostname()},elsewhere")
    there = here | {"SLURM_PROCID": "2", "SLURM_LOCALID": "0", "SLURM_NODEID": "1"}
    script = job.script(TWICE)
    processes = [start(job, [PYTHON, script], HVDLITE_HOST_ID="b", **there)]
    processes += ranks(job, 2, script, here, HVDLITE_HOST_ID="a")
    codes, output = finish(*processes)
    assert codes == [0, 0, 0], output
    expect_places(job, [[0, 3, 0, 2, 0, 2], [1, 3, 1, 2, 0, 1], [2, 3, 0, 1, 1, 2]])


def test_strangers_at_the_ports_are_recognised(job: Job) -> None:
    """One that says nothing, and another job's store."""
    variables = step_with_free_ports(2)
    first, second, *_ = ports_of(variables)
    silent = socket.create_server(("127.0.0.1", first))
    with silent, StoreServer(os.urandom(32), port=second):
        codes, output = finish(*ranks(job, 2, job.script(TWICE), variables))
    assert codes == [0, 0], output
    expect_places(job, on_one_host(2))


def test_two_steps_at_once_keep_apart(job: Job, tmp_path_factory: pytest.TempPathFactory) -> None:
    other = Job(tmp_path_factory.mktemp("other"))
    processes = [p for j in (job, other) for p in ranks(j, 2, j.script(TWICE), step(2))]
    codes, output = finish(*processes)
    assert codes == [0] * 4, output
    for each in (job, other):
        expect_places(each, on_one_host(2))
    assert not other.wait_until_gone(1.0)


def test_when_all_ports_are_taken_rank_0_says_so(job: Job) -> None:
    variables = step_with_free_ports(2)
    taken = [socket.create_server(("127.0.0.1", port)) for port in ports_of(variables)]
    try:
        process = ranks(job, 1, job.script(TWICE), variables)[0]
        codes, output = finish(process)
    finally:
        for sock in taken:
            sock.close()
    assert codes == [1] and re.search("rank 0 of 2, started by srun, .* are all taken on", output), output


def test_a_rank_0_that_never_comes_is_waited_for_only_so_long(job: Job) -> None:
    variables = step_with_free_ports(2) | {"SLURM_PROCID": "1", "SLURM_LOCALID": "1"}
    # Its time is over when it has knocked everywhere.
    clock = (
        "from types import SimpleNamespace\nfrom hvdlite.rendezvous import addresses\n"
        "said, try_ = [], addresses._try\n"
        "def knock(*given):\n    said.append(given[4])\n    try_(*given)\n"
        "addresses._try = knock\n"
        "addresses.time = SimpleNamespace(monotonic=lambda: 1000.0 if said and len(said[0]) == 4 else 0.0)\n"
    )
    codes, output = finish(start(job, [PYTHON, job.script(clock + TWICE)], HVDLITE_START_TIMEOUT="60", **variables))
    assert codes == [1]
    assert "rank 1 of 2, started by srun, could not meet the other ranks: no answer within 60 s" in output, output
    for port in ports_of(variables):
        assert f"127.0.0.1 port {port}: [Errno 111] Connection refused" in output


def test_ctrl_c_ends_the_wait_for_rank_0(job: Job) -> None:
    variables = step(2) | {"SLURM_PROCID": "1", "SLURM_LOCALID": "1"}
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


# GET and PUT of /scope/key, as horovodrun's rendezvous server has it. Writes its port to a file.
KEYS = """
import http.server, socket, sys
class Keys(http.server.BaseHTTPRequestHandler):
    values = {}
    def do_GET(self):
        value = self.values.get(self.path)
        self.send_response(404 if value is None else 200)
        self.send_header("Content-Length", str(len(value or b"")))
        self.end_headers()
        self.wfile.write(value or b"")
    def do_PUT(self):
        self.values[self.path] = self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.end_headers()
    def log_message(self, *_):
        pass
class Server(http.server.ThreadingHTTPServer):
    address_family = socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET
    def server_bind(self):
        self.socket.bind(self.server_address)
server = Server((sys.argv[1], 0), Keys)
with open("port.new", "w") as file:
    file.write(str(server.socket.getsockname()[1]))
import os; os.rename("port.new", "port")
server.serve_forever()
"""


def serve_keys(job: Job, host: str = "127.0.0.1", prefix: Sequence[str] = ()) -> dict[str, str]:
    """Starts a horovodrun's server; returns what its ranks find in their environment."""
    start(job, [*prefix, PYTHON, job.script(KEYS, "keys.py"), host])
    job.wait_for_files(["port"])
    return horovods_variables(int((job.directory / "port").read_text()), host)


@pytest.fixture
def horovodrun(job: Job) -> Iterator[dict[str, str]]:
    yield serve_keys(job)
    stop_server(job)


def stop_server(job: Job) -> None:
    job.started[0].kill()
    job.started[0].wait()


def horovods_variables(port: int, host: str = "127.0.0.1") -> dict[str, str]:
    numbers = {
        "RANK": "{rank}",
        "SIZE": "2",
        "LOCAL_RANK": "{rank}",
        "LOCAL_SIZE": "2",
        "CROSS_RANK": "0",
        "CROSS_SIZE": "1",
    }
    return {f"HOROVOD_{name}": value for name, value in numbers.items()} | {
        "HOROVOD_GLOO_RENDEZVOUS_ADDR": host,
        "HOROVOD_GLOO_RENDEZVOUS_PORT": str(port),
        "HOROVOD_CONTROLLER": "gloo",
        "HOROVOD_CPU_OPERATIONS": "gloo",
        "http_proxy": "http://127.0.0.1:9",  # must not be asked
    }


def test_horovodrun(job: Job, horovodrun: dict[str, str]) -> None:
    codes, output = finish(*ranks(job, 2, job.script(TWICE), horovodrun))
    assert codes == [0, 0], output
    expect_places(job, on_one_host(2))


def test_a_horovodrun_that_is_gone_is_told(job: Job) -> None:
    variables = horovods_variables(free_port())
    codes, output = finish(*ranks(job, 2, job.script(TWICE), variables, HVDLITE_START_TIMEOUT="1"))
    assert codes == [1, 1]
    assert output.count("horovodrun's rendezvous server at 127.0.0.1 port") >= 2 and "Connection refused" in output


def test_what_hinders_rank_0_all_ranks_are_told_at_once(job: Job, horovodrun: dict[str, str]) -> None:
    variables = horovodrun | {"HOROVOD_LOCAL_SIZE": "", "HVDLITE_NETWORK_INTERFACES": "nonesuch0"}
    codes, output = finish(*ranks(job, 2, job.script(TWICE), variables, HVDLITE_START_TIMEOUT="600"))
    assert codes == [1, 1]
    assert "rank 0 could not open the job's store: There is no interface 'nonesuch0'" in output, output


# --- the arguments of init()


def explicit(job: Job, secrets: Sequence[str], **extra: str) -> list[subprocess.Popen[bytes]]:
    script = job.script(
        PROGRAM + "rank, port, secret = int(sys.argv[1]), sys.argv[2], sys.argv[3]\n"
        "where = dict(rank=rank, size=2, rendezvous=f'localhost:{port}', secret=secret)\n"
        "turn(**where)\nhvd.shutdown()\nturn(**where)\n"
    )
    port = str(free_port())
    return [start(job, [PYTHON, script, str(rank), port, secret], **extra) for rank, secret in enumerate(secrets)]


def test_arguments(job: Job) -> None:
    codes, output = finish(*explicit(job, ["ab" * 32] * 2))
    assert codes == [0, 0], output
    expect_places(job, on_one_host(2))


def test_arguments_with_different_secrets(job: Job) -> None:
    first, second = explicit(job, ["ab" * 32, "cd" * 32], HVDLITE_START_TIMEOUT="600")
    codes, output = finish(second)
    assert codes == [1] and "does not know this job's secret" in output, output
    first.terminate()  # it would wait for its rank 1
    output += finish(first)[1]
    assert "abab" not in output and "cdcd" not in output.replace("abcd", "")


# --- between hosts

_NO_NETWORK = network.why_not()


@pytest.fixture(params=[4, 6], ids=["IPv4", "IPv6"])
def hosts(request: pytest.FixtureRequest) -> Iterator[network.Network]:
    if _NO_NETWORK is not None:
        pytest.skip(_NO_NETWORK)
    with network.Network(2, request.param) as two:
        yield two


def on_two_hosts(job: Job, hosts: network.Network, variables: dict[str, str]) -> list[subprocess.Popen[bytes]]:
    script = job.script(TWICE)
    return [
        start(job, [*hosts.prefix(rank), PYTHON, script], **{k: v.format(rank=rank) for k, v in variables.items()})
        for rank in range(2)
    ]


TWO_HOSTS = [[0, 2, 0, 1, 0, 2], [1, 2, 0, 1, 1, 2]]


def test_of_the_addresses_that_rank_0_offers_the_one_that_leads_there_is_taken(
    job: Job, hosts: network.Network
) -> None:
    """docker0 has the same address on both hosts."""
    variables = serve_keys(job, hosts.address(-1), hosts.prefix(-1))
    variables |= {"HOROVOD_LOCAL_RANK": "0", "HOROVOD_LOCAL_SIZE": "1"}
    codes, output = finish(*on_two_hosts(job, hosts, variables))
    stop_server(job)
    assert codes == [0, 0], output
    expect_places(job, TWO_HOSTS)


def test_srun_between_hosts(job: Job, hosts: network.Network) -> None:
    variables = step(2, SLURM_STEP_TASKS_PER_NODE="1(x2)", SLURM_LOCALID="0", SLURM_NODEID="{rank}")
    variables |= {"SLURM_STEP_NODELIST": "nowhere,elsewhere", "SLURM_LAUNCH_NODE_IPADDR": hosts.address(0)}
    codes, output = finish(*on_two_hosts(job, hosts, variables))
    assert codes == [0, 0], output
    expect_places(job, TWO_HOSTS)


def test_torchs_variables_between_hosts(job: Job, hosts: network.Network) -> None:
    variables = {"RANK": "{rank}", "WORLD_SIZE": "2", "MASTER_ADDR": hosts.address(0), "MASTER_PORT": "29500"}
    codes, output = finish(*on_two_hosts(job, hosts, variables))
    assert codes == [0, 0], output
    expect_places(job, TWO_HOSTS)


def test_a_rank_0_on_another_than_the_first_host_is_told(job: Job, hosts: network.Network) -> None:
    variables = step(2, SLURM_STEP_TASKS_PER_NODE="1(x2)", SLURM_LOCALID="0", SLURM_NODEID="0", SLURM_PROCID="0")
    variables |= {"SLURM_STEP_NODELIST": f"{hosts.address(1)},{hosts.address(0)}"}
    codes, output = finish(start(job, [*hosts.prefix(0), PYTHON, job.script(TWICE)], **variables))
    assert codes == [1] and "says that the first host is" in output, output
