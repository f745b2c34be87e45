"""Ranks under the launchers of others: a program that tells its place, and what those launchers set
for it."""

from __future__ import annotations

import contextlib
import json
import os
import random
import socket
import subprocess
import sys
import time
from collections.abc import Sequence

from launched import Job
from mpis import start

from hvdlite.job.bootstrap import by_ports
from hvdlite.launch.environment import discover
from hvdlite.launch.environment.identity import AtPorts

PYTHON = sys.executable

# Joins twice, and leaves a line for each time.
PROGRAM = """
import json, os, sys
import numpy as np
import hvdlite as hvd
def turn(**where):
    hvd.init(**where)
    total = hvd.allreduce(np.arange(4.0) + hvd.rank(), op=hvd.Sum).tolist()
    place = [hvd.rank(), hvd.size(), hvd.local_rank(), hvd.local_size()]
    place += [hvd.cross_rank(), hvd.cross_size()]
    with open(f"report.{hvd.rank()}", "a") as report:
        report.write(json.dumps([place, total]) + "\\n")
"""
TWICE = PROGRAM + "turn()\nhvd.shutdown()\nturn()\n"

TWO_HOSTS = [[0, 2, 0, 1, 0, 2], [1, 2, 0, 1, 1, 2]]


def expect_places(job: Job, places: Sequence[Sequence[int]], turns: int = 2) -> None:
    """Each rank's line: rank, size, local rank and size, cross rank and size; and the sum over all
    ranks."""
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


def torchs_variables() -> dict[str, str]:
    """Of two ranks, as Ray Train and Kubeflow's operator set them."""
    return {
        "RANK": "{rank}",
        "WORLD_SIZE": "2",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(free_port()),
    }


def ranks(
    job: Job, size: int, script: str, variables: dict[str, str], **extra: str
) -> list[subprocess.Popen[bytes]]:
    """Processes that differ in nothing but `{rank}` in the variables."""
    return [
        start(
            job, [PYTHON, script], **{k: v.format(rank=rank) for k, v in variables.items()}, **extra
        )
        for rank in range(size)
    ]


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


def step_of_two_hosts(**changes: str) -> dict[str, str]:
    """Two tasks, each on a host; both are this one, so that the store listens on all interfaces and
    is looked for by name."""
    here = {"SLURM_STEP_TASKS_PER_NODE": "1(x2)", "SLURM_LOCALID": "0", "SLURM_NODEID": "{rank}"}
    return step(2, **here, HVDLITE_HOST_ID="{rank}", **changes)


def ports_of(variables: dict[str, str]) -> list[int]:
    method = discover({k: v.format(rank=0) for k, v in variables.items()}).rendezvous_method
    assert isinstance(method, AtPorts)
    return by_ports.candidates(method.job)


def step_with_free_ports() -> dict[str, str]:
    """A step of two hosts, of which nobody else has one of the ports."""
    while True:
        variables = step_of_two_hosts()
        with contextlib.suppress(OSError), contextlib.ExitStack() as stack:
            for port in ports_of(variables):
                stack.enter_context(socket.create_server(("127.0.0.1", port)))
            return variables


def free_port() -> int:
    """Not one of those that the system gives to whoever asks for any: it would be somebody's before
    it is used."""
    while True:
        with (
            contextlib.suppress(OSError),
            socket.create_server(("127.0.0.1", random.randrange(10_000, 20_000))) as sock,
        ):
            return int(sock.getsockname()[1])


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
