"""What a job looks like from outside, and what strangers can do to it."""

from __future__ import annotations

import contextlib
import os
import random
import socket
import struct
from pathlib import Path

import pytest
from another_user import as_nobody
from bare_ranks import Ranks, program
from launched import Job, ended
from machine import within
from mpis import finish, start
from others import PYTHON, ranks, step, torchs_variables
from stillness import wait_until_still

from hvdlite.job import bootstrap
from hvdlite.launch import environment

Hosts = tuple[str, ...]


def _listening(pids: list[int]) -> list[tuple[str, str, int]]:
    """(address family, address, port) of every listening TCP socket of these processes."""
    inodes = set()
    for pid in pids:
        with contextlib.suppress(OSError):  # it has ended
            for fd in os.listdir(f"/proc/{pid}/fd"):
                with contextlib.suppress(OSError):  # it has been closed
                    target = os.readlink(f"/proc/{pid}/fd/{fd}")
                    if target.startswith("socket:["):
                        inodes.add(target[8:-1])
    found = []
    for family, table in (("4", "/proc/net/tcp"), ("6", "/proc/net/tcp6")):
        for line in Path(table).read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and fields[9] in inodes:
                address, port = fields[1].split(":")
                found.append((family, address, int(port, 16)))
    return found


_RUNS = (
    "hvd.init(); flag(f'ready.{RANK}')\n"
    "while not os.path.exists('stop'):\n"
    "    assert hvd.allreduce(1, op=hvd.Sum, name='goes on') == SIZE\n"
    "    if hvd.allreduce(np.array(os.path.exists('enough')), op=hvd.Max): break\n"
    "    time.sleep(0.001)\n"  # poll
)


def test_nothing_of_a_one_host_job_listens_beyond_the_loopback(job: Job) -> None:
    import sys

    script = job.script(program(_RUNS))
    process = job.start("-np", "2", sys.executable, script)
    job.wait_for_files(["ready.0", "ready.1"])
    listening = _listening(job.pids())
    (job.directory / "enough").touch()
    ended(process)
    assert listening, "the store"
    for family, address, port in listening:
        loopback = (
            address == "0100007F"
            if family == "4"
            else address == "00000000000000000000000001000000"
        )
        assert loopback, f"port {port} is open at {address}"


_GARBAGE = {
    "nothing": [b""],
    "http": [b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"],
    "random": [random.Random(1).randbytes(5000)],
    "zeros": [bytes(1 << 16)],
    "ones": [b"\xff" * 4096],
    "huge length": [
        struct.pack("<Q", 1 << 63),
        struct.pack(">Q", 1 << 63),
        struct.pack("<I", 0xFFFFFFFF) * 64,
    ],
    "drip": [b"x", b"y", b"z"],
}


@pytest.mark.parametrize("garbage", list(_GARBAGE))
def test_garbage_on_every_open_port_leaves_the_job_unharmed(
    three_ranks: Ranks, garbage: str
) -> None:
    three_ranks.start(_RUNS)
    three_ranks.wait_for_flags("ready.0", "ready.1", "ready.2")
    ports = [(f, p) for f, _, p in _listening(list(three_ranks.job.pids()))] + [
        ("4", three_ranks.server.address[1])
    ]
    for family, port in ports:
        for piece in _GARBAGE[garbage]:
            where = ("127.0.0.1", port) if family == "4" else ("::1", port)
            with socket.socket(socket.AF_INET if family == "4" else socket.AF_INET6) as stranger:
                stranger.settimeout(2)
                try:
                    stranger.connect(where)
                    stranger.sendall(piece)
                    stranger.recv(1)
                except OSError:
                    pass
    (three_ranks.directory / "enough").touch()
    three_ranks.end_well()


_OF_THE_FILE = (
    "import os, hvdlite as hvd\n"
    "from hvdlite.launch.environment import discover\n"
    "hvd.init()\n"
    "print(discover(os.environ).secret.hex(), 'HVDLITE_SECRET' in os.environ, hvd.size(), "
    "flush=True)\n"
)


def test_hvdliterun_takes_the_jobs_secret_from_a_private_file(job: Job) -> None:
    path = job.directory / "secret"
    path.write_text("ab" * 32 + "\n")
    path.chmod(0o600)
    script = job.script(_OF_THE_FILE)
    for given in (["--secret-file", "secret"], []):
        done = job.run(
            "-np",
            "2",
            *given,
            PYTHON,
            script,
            **({} if given else {"HVDLITE_SECRET_FILE": str(path)}),
        )
        assert done.returncode == 0 and done.stdout.decode().count(f"{'ab' * 32} False 2") == 2, (
            done
        )
    path.chmod(0o644)
    done = job.run("-np", "2", "--secret-file", str(path), PYTHON, script)
    assert done.returncode != 0 and not done.stdout, done
    assert (
        f"HVDLITE_SECRET_FILE={path} is open to others: its mode is 0644, and has to be 0600"
        in done.stderr.decode()
    )


_VICTIM = """
import hvdlite as hvd
hvd.init()
print(hvd.broadcast_object(None if hvd.rank() == 0 else "hello", root_rank=1))
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="becoming another user needs root")
@pytest.mark.parametrize("launcher", ["RANK and MASTER_ADDR", "srun"])
def test_another_user_of_the_host_does_not_get_into_a_job_of_one_host(
    job: Job, launcher: str
) -> None:
    variables = step(2) if launcher == "srun" else torchs_variables()
    script = job.script(_VICTIM)
    first = ranks(job, 1, script, variables, HVDLITE_START_TIMEOUT=f"{within(60):g}")[0]
    as_rank_1 = {name: value.format(rank=1) for name, value in variables.items()}
    wait_until_still(first.pid)
    # A process that knows what every user can look up.
    me = environment.discover(as_rank_1)
    told = as_nobody(lambda: bootstrap.meet(me, "", 1.0, bootstrap.MpiRequest()))
    assert told.startswith("TimeoutError") and "runs as user 65534" not in told, told
    # The real one gets in afterwards.
    codes, output = finish(first, start(job, [PYTHON, script], **as_rank_1))
    assert codes == [0, 0] and output.count("hello") == 2, output


def test_a_member_with_the_wrong_secret_does_not_get_in(two_ranks: Ranks) -> None:
    two_ranks.start(_RUNS, ranks=[0])
    right, two_ranks.secret = two_ranks.secret, bytes(32)
    two_ranks.start("try: hvd.init()\nexcept Exception as e: tell(text=str(e))\n", ranks=[1])
    assert two_ranks.processes[1].wait(within(20)) == 0
    assert "secret" in two_ranks.last(1)["text"] or "handshake" in two_ranks.last(1)["text"], (
        two_ranks.last(1)
    )
    two_ranks.secret = right
    two_ranks.start(_RUNS, ranks=[1])
    two_ranks.wait_for_flags("ready.0", "ready.1")
    (two_ranks.directory / "enough").touch()
    two_ranks.end_well()
