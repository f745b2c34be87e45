"""A job that is not elastic pays nothing for elastic training: threads, keys and connections are
counted, before and after `hvd.elastic.run`."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import pytest
from bare_ranks import Ranks

from hvdlite.rendezvous.server import StoreServer

PROGRAM = """
def count():
    # The thread in which init() has waited is gone for Python before it is gone for the kernel.
    end = time.monotonic() + within(5)
    while len(os.listdir("/proc/self/task")) > before + 3 and time.monotonic() < end:
        time.sleep(0.002)  # poll
    tasks = os.listdir("/proc/self/task")
    names = [open(f"/proc/self/task/{task}/comm").read().strip() for task in tasks]
    links = []
    for entry in os.listdir("/proc/self/fd"):
        try:
            links.append(os.readlink(f"/proc/self/fd/{entry}"))
        except FileNotFoundError:  # that of the listing
            pass
    return {
        "python": sorted(thread.name for thread in threading.enumerate()),
        "native": sorted(name for name in names if name.startswith("hvd")),
        "tasks": len(tasks),
        "sockets": sum(link.startswith("socket:") for link in links),
        "pipes": sum(link.startswith("pipe:") for link in links),
    }

before = len(os.listdir("/proc/self/task"))
hvd.init()
assert "hvdlite.job.membership" not in sys.modules and "hvdlite.elastic" not in sys.modules
tell(before=before, at_init=count())
state = hvd.elastic.ObjectState(number=RANK)

def train(state):
    for _ in range(3):
        hvd.allreduce(np.ones(3), name="gradient")
        state.commit()
        state.step()
    tell(inside=count())
    hvd.barrier()  # the job lives until both have counted
    return state.number

tell(end=hvd.elastic.run(train)(state))
"""


class CountingListener(socket.socket):
    """How many connections the store has accepted."""

    accepted = 0

    def accept(self) -> Any:
        connection = super().accept()
        self.accepted += 1
        return connection


# Keys are counted by their first word: each of the ranks tells of itself; the first rank of a host
# with several ranks says where they meet; where there are several hosts, each rank says where it
# listens.
@pytest.mark.parametrize(
    ("hosts", "keys", "sockets"),
    [
        ((), {"member": 2, "host": 1}, 2),  # that of the pulse, and an end of the host's meeting
        (("a", "b"), {"member": 2, "door": 2}, 4),  # and a listener, and links for both purposes
    ],
)
def test_a_job_that_is_not_elastic_has_no_thread_key_or_connection_of_it(
    tmp_path: Path, hosts: tuple[str, ...], keys: dict[str, int], sockets: int
) -> None:
    servers: list[StoreServer] = []
    watched = []

    def counted_store(secret: bytes) -> StoreServer:
        server = StoreServer(secret)
        server._listener = CountingListener(fileno=server._listener.detach())
        server._listener.setblocking(False)
        servers.append(server)
        watched.append(server.watch(""))
        return server

    with Ranks(tmp_path, 2, hosts, make_store=counted_store) as ranks:
        ranks.all_end_well(PROGRAM)
        found: dict[str, int] = {}
        for key, _ in watched[0].take():
            start, attempt, what, _ = key.split("/")
            assert (start, attempt) == ("init", "0"), key
            found[what] = found.get(what, 0) + 1
        assert found == keys
        listener = servers[0]._listener
        assert isinstance(listener, CountingListener)
        assert listener.accepted == 2 + 2, "each rank meets, and its pulse waits for `hvdlite top`"
        for rank in (0, 1):
            told = {name: value for line in ranks.told(rank) for name, value in line.items()}
            at_init, inside = told["at_init"], told["inside"]
            assert told["end"] == 0
            assert at_init["python"] == ["MainThread", "hvdlite-pulse", "hvdlite-where"]
            assert at_init["tasks"] == told["before"] + 3, "Python's two, and the engine's"
            assert at_init["sockets"] == sockets and at_init == inside, (at_init, inside)
