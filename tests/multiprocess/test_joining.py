"""Ranks that are lost while they join: in every phase of hvd.init(), for every reason; and what can
be done afterwards."""

from __future__ import annotations

import os
import random
import shutil
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from bare_ranks import PROMPT, Ranks
from machine import within

import hvdlite

Hosts = tuple[str, ...]

ON = {"shm": ("a", "a", "a"), "net": ("a", "b", "c"), "hierarchical": ("a", "a", "b")}


@pytest.fixture(params=list(ON))
def hosts(request: pytest.FixtureRequest) -> Hosts:
    return ON[request.param]


# What a rank does that wants to know how its init() ended.
TRY = """
def attempt():
    try:
        hvd.init()
        return until_it_fails(lambda: hvd.allreduce(np.ones(1)))
    except (hvd.HorovodInternalError, TimeoutError, ValueError) as error:
        tell(error=type(error).__name__, text=str(error), peer=getattr(error, "rank", None))
        return error
"""

# A rank that goes so far and no further: joined, told where it is, opened its doors; then it dies.
# Its doors let everybody in and never say a word.
_ACTOR = """
import socket, struct
from hvdlite.base import knobs
from hvdlite.launch import environment
from hvdlite.rendezvous import StoreClient, protocol
me = environment.discover(os.environ)
store = StoreClient(me.rendezvous, me.secret)
store._ask(protocol.Request(protocol.Operation.JOIN, "init", RANK, protocol.encode_count(SIZE)))
keep = []
if PHASE != "joined":
    host, address = os.environ["HVDLITE_HOST_ID"].encode(), b"127.0.0.1/8"
    release = hvd.__version__.encode()
    member = struct.pack("<BiqHH", 7, RANK, os.getpid(), 0, len(host)) + host
    member += bytes([len(release)]) + release + struct.pack("<i", 0)
    member += bytes([1, len(address)]) + address
    values = knobs.resolve(os.environ)
    alike = [(k.environment[0], values[k.field]) for k in knobs.KNOBS if k.alike]
    texts = (f"{name}={int(value) if isinstance(value, bool) else value}" for name, value in alike)
    settings = ";".join(texts).encode()
    member += struct.pack("<HHH", 0, 0, len(settings)) + settings + struct.pack("<H", 0)
    store.set(f"init/0/member/{RANK}", member)
if PHASE == "doors":
    unix = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    name = b"hvdlite-test-%d" % os.getpid()
    unix.bind(b"\\0" + name)
    unix.listen(8)
    store.set(f"init/0/host/{RANK}", name)
    tcp = socket.create_server(("127.0.0.1", 0))
    store.set(f"init/0/door/{RANK}", b"127.0.0.1:%d" % tcp.getsockname()[1])
flag("acted"); wait_flag("die"); tell(dying=True); os._exit(7)
"""


@pytest.mark.parametrize("victim", [0, 1])
@pytest.mark.parametrize("phase", ["joined", "a member", "doors"])
def test_a_death_in_any_phase_is_told_to_those_who_wait_there(
    three_ranks: Ranks, phase: str, victim: int
) -> None:
    three_ranks.start(f"PHASE = {phase!r}\n" + _ACTOR, ranks=[victim])
    others = sorted({0, 1, 2} - {victim})
    three_ranks.start(TRY + "attempt()\n", ranks=others)
    three_ranks.wait_for_flags("acted")
    three_ranks.wait_for_members(*others)
    three_ranks.wait_until_still(*others)
    (three_ranks.directory / "die").touch()
    assert three_ranks.wait()[victim] == 7, three_ranks.outputs()
    three_ranks.all_hear_of(victim)


def _kill_after_joining(ranks: Ranks, victim: int, pause: float) -> float:
    ranks.wait_for_members(victim)
    time.sleep(pause)  # span: a moment that chance has picked
    return ranks.kill(victim)


@pytest.mark.parametrize("on_one_processor", [False, True], ids=["", "on one processor"])
@pytest.mark.parametrize("seed", range(2))
def test_a_kill_at_any_moment_of_joining_is_told_to_everybody(
    tmp_path: Path, hosts: Hosts, seed: int, on_one_processor: bool
) -> None:
    if on_one_processor and shutil.which("taskset") is None:
        pytest.skip("no taskset")
    dice = random.Random(seed)
    victim = dice.randrange(4)
    prefix: Sequence[str] = (
        ("taskset", "-c", str(min(os.sched_getaffinity(0)))) if on_one_processor else ()
    )
    with Ranks(tmp_path, 4, (*hosts, hosts[-1])) as ranks:
        ranks.start(TRY + "tell(); attempt()\n", prefix=prefix)
        death = _kill_after_joining(
            ranks, victim, dice.choice([0, dice.uniform(0, 0.01), dice.uniform(0, 0.3)])
        )
        ranks.wait()
        for rank in set(range(4)) - {victim}:
            told = ranks.last(rank)
            assert (told["error"], told["peer"]) == ("PeerLostError", victim), (
                f"{told}\n{ranks.outputs()}"
            )
            # A rank that was still starting Python hears of it when it comes.
            came = ranks.told(rank)[0]
            assert told["at"] - max(death, came["at"]) < within(PROMPT), told


def test_a_rank_that_comes_after_a_death_is_told_at_once(three_ranks: Ranks) -> None:
    three_ranks.start(TRY + "attempt()\n", ranks=[0, 1])
    _kill_after_joining(three_ranks, 0, 0)
    three_ranks.start(TRY + "tell(); attempt()\n", ranks=[2])
    three_ranks.wait()
    three_ranks.expect_named(2, 0, three_ranks.told(2)[0]["at"])


def test_an_error_inside_init_of_one_rank_reaches_the_others_with_its_text(
    three_ranks: Ranks,
) -> None:
    three_ranks.start(TRY + "attempt()\n", ranks=[0, 2])
    three_ranks.start(TRY + "attempt()\n", ranks=[1], HVDLITE_NETWORK_INTERFACES="nowhere0")
    three_ranks.wait()
    own = three_ranks.last(1)
    assert own["error"] == "ValueError" and "nowhere0" in own["text"]
    for rank in (0, 2):
        three_ranks.expect_named(rank, 1, own["at"])
        assert "nowhere0" in three_ranks.last(rank)["text"]


def test_ranks_that_disagree_about_the_size_are_told(two_ranks: Ranks) -> None:
    two_ranks.start(TRY + "attempt()\n", ranks=[0])
    two_ranks.wait_for_members(0)
    two_ranks.start("os.environ['HVDLITE_SIZE'] = '3'\n" + TRY + "attempt()\n", ranks=[1])
    two_ranks.processes[1].wait()
    two_ranks.kill(0)
    told = two_ranks.last(1)
    assert (
        told["error"] == "ValueError" and "a job of 3 ranks, the others one of 2" in told["text"]
    ), told


# --- afterwards

_AGAIN = (
    TRY
    + """
assert isinstance(attempt(), (hvd.PeerLostError, TimeoutError))
hvd.shutdown()
flag(f"failed.{RANK}")
hvd.init(); tell(sum=float(hvd.allreduce(1.0, op=hvd.Sum)))
"""
)
_REPLACEMENT = "hvd.init(); tell(sum=float(hvd.allreduce(1.0, op=hvd.Sum)))\n"


def _all_have_met(ranks: Ranks, n: int) -> None:
    ranks.wait()
    assert [ranks.last(r).get("sum") for r in range(n)] == [float(n)] * n, ranks.outputs()


@pytest.mark.parametrize("victim", [0, 2])
@pytest.mark.parametrize("how", ["lost while joining", "lost later"])
def test_survivors_init_again_together_with_a_replacement(
    three_ranks: Ranks, how: str, victim: int
) -> None:
    others = sorted({0, 1, 2} - {victim})
    three_ranks.start(_AGAIN, ranks=others)
    if how == "lost while joining":
        three_ranks.start("PHASE = 'doors'\n" + _ACTOR, ranks=[victim])
    else:
        three_ranks.start(
            "hvd.init(); hvd.allreduce(np.ones(1)); flag('acted'); os._exit(7)\n", ranks=[victim]
        )
    three_ranks.wait_for_flags("acted")
    if how == "lost while joining":
        three_ranks.wait_for_members(*others)
    (three_ranks.directory / "die").touch()
    # One of the survivors may be back before the others know.
    three_ranks.wait_for_flags(f"failed.{others[0]}")
    three_ranks.processes[victim].wait()
    three_ranks.start(_REPLACEMENT, ranks=[victim])
    _all_have_met(three_ranks, 3)


def test_after_a_start_timeout_a_retry_meets_the_rank_that_was_late(three_ranks: Ranks) -> None:
    three_ranks.start(
        # Together, or the one that is first waits in vain for two.
        "flag(f'here.{RANK}'); wait_flag(f'here.{1 - RANK}')\n"
        + _AGAIN.replace(
            "hvd.shutdown()",
            "hvd.shutdown(); os.environ['HVDLITE_START_TIMEOUT'] = str(within(20))",
        ),
        ranks=[0, 1],
        HVDLITE_START_TIMEOUT="2",
    )
    three_ranks.wait_for_flags("failed.0", "failed.1")
    three_ranks.wait_for_members(0, attempt=1)
    three_ranks.start(_REPLACEMENT, ranks=[2])
    _all_have_met(three_ranks, 3)
    for rank in (0, 1):
        assert three_ranks.told(rank)[0]["error"] == "TimeoutError"
        assert "rank 2 did not call hvd.init()" in three_ranks.told(rank)[0]["text"]


# --- what might keep a death secret


# A thread's fork() pauses after hvdlite has been told of it, until the main thread has a connection
# with the store; a second at most, which is how long a main thread that waits for the fork takes.
_FORK_SLOWLY = (
    "import ctypes\n"
    "def is_socket(fd):\n"
    "    try: return os.readlink(f'/proc/self/fd/{fd}').startswith('socket')\n"
    "    except OSError: return False\n"
    "sockets = lambda: sum(map(is_socket, os.listdir('/proc/self/fd')))\n"
    "def pause():\n"
    "    before, end = sockets(), time.monotonic() + 1\n"
    "    flag('forking')\n"
    "    while sockets() == before and time.monotonic() < end: time.sleep(0.0001)  # poll\n"
    "pause = ctypes.CFUNCTYPE(None)(pause)\n"
    "ctypes.CDLL(None).__register_atfork(pause, None, None, None)\n"
    "hvd.is_initialized()  # hvdlite's handler runs before those that were there\n"
    "init, hvd.init = hvd.init, lambda: (wait_flag('forking'), init())\n"
)


@pytest.mark.parametrize(
    ("before", "during"),
    [
        ("fork()", ""),
        ("", "wait_flag('waiting'); fork()"),
        ("", "for _ in range(30): fork(); time.sleep(0.002)"),  # span: moments of its way
        (_FORK_SLOWLY, "fork()"),
    ],  # span: at moments of its way
    ids=[
        "before init",
        "while it waits",
        "while it connects",
        "by a fork that began before it connects",
    ],
)
def test_a_forked_child_does_not_keep_the_death_of_a_joining_rank_secret(
    three_ranks: Ranks, before: str, during: str
) -> None:
    three_ranks.start(TRY + "attempt()\n", ranks=[0])
    three_ranks.start(
        "def fork():\n"
        "    if os.fork() == 0: outlive('heard')\n"
        "def die():\n"
        f"    {during}\n"
        "    wait_flag('waiting'); tell(dying=True); os.kill(os.getpid(), signal.SIGKILL)\n"
        f"{before}\n"
        "threading.Thread(target=die, daemon=True).start()\n"
        "hvd.init()\n",
        ranks=[1],
    )
    three_ranks.wait_for_members(0, 1)
    three_ranks.wait_until_still(0)
    (three_ranks.directory / "waiting").touch()
    three_ranks.wait()
    three_ranks.expect_named(0, 1, three_ranks.last(1)["at"])
    (three_ranks.directory / "heard").touch()  # before that the children have not ended


def test_a_rank_that_serves_the_store_and_dies_is_named(three_ranks: Ranks) -> None:
    three_ranks.start(
        "from hvdlite.rendezvous import StoreClient, StoreServer\n"
        "secret = bytes.fromhex(os.environ['HVDLITE_SECRET'])\n"
        "server = StoreServer(secret, rank=0).start()\n"
        "with open('port.new', 'w') as file: file.write(str(server.address[1]))\n"
        "os.rename('port.new', 'port')\n"
        "os.environ['HVDLITE_RENDEZVOUS'] = f'127.0.0.1:{server.address[1]}'\n"
        "if os.fork() == 0: outlive('heard')\n"
        "def die():\n"
        "    with StoreClient(server.address, secret) as store: store.get('init/0/member/1', "
        "within(20))\n"
        "    flag('known'); wait_flag('die'); tell(dying=True); os.kill(os.getpid(), "
        "signal.SIGKILL)\n"
        "threading.Thread(target=die, daemon=True).start()\n"
        "hvd.init()\n",
        ranks=[0],
    )
    three_ranks.wait_for_flags("port")
    three_ranks.start(
        "os.environ['HVDLITE_RENDEZVOUS'] = "
        f"'127.0.0.1:{(three_ranks.directory / 'port').read_text()}'\n" + TRY + "attempt()\n",
        ranks=[1],
    )
    three_ranks.wait_for_flags("known")
    three_ranks.wait_until_still(1)
    (three_ranks.directory / "die").touch()
    three_ranks.wait()
    three_ranks.expect_named(1, 0, three_ranks.last(0)["at"])
    (three_ranks.directory / "heard").touch()  # before that the child has not ended


def test_a_store_that_ends_is_noticed_at_once_by_those_who_join(three_ranks: Ranks) -> None:
    three_ranks.start("PHASE = 'doors'\n" + _ACTOR, ranks=[0])
    three_ranks.start(TRY + "attempt()\n", ranks=[1, 2])
    three_ranks.wait_for_members(0, 1, 2)
    three_ranks.wait_until_still(1, 2)
    ended = time.monotonic()
    three_ranks.server.close()
    for rank in (1, 2):
        three_ranks.processes[rank].wait(within(20))
    for rank in (1, 2):
        told = three_ranks.last(rank)
        assert told["error"] == "HorovodInternalError" and "lost the job's store" in told["text"], (
            told
        )
        assert told["at"] - ended < within(PROMPT)
    (three_ranks.directory / "die").touch()
    three_ranks.wait()


# --- process sets are connected later, and in hvd.init(process_sets=[...]) at once


def test_a_death_ends_the_wait_of_those_who_connect_a_process_set(tmp_path: Path) -> None:
    with Ranks(tmp_path, 4, ("a", "b", "c", "c")) as ranks:
        ranks.start(
            "hvd.init(); hvd.allreduce(1.0)\n"
            "if RANK == 1:\n"
            "    import resource; hvd.add_process_set  # is imported while a file may be opened\n"
            # It cannot make the links that the others wait for.
            "    resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir('/proc/self/fd')) - "
            "1,) * 2)\n"
            "    try: hvd.add_process_set([0, 1, 2])\n"
            # A folder as a flag: there is no descriptor left for a file.
            "    except hvd.HorovodInternalError: os.mkdir('gave up'); wait_flag('die'); "
            "tell(dying=True); os._exit(7)\n"
            "until_it_fails(lambda: (hvd.add_process_set([0, 1, 2]), hvd.allreduce(1.0)))\n"
            "until_it_fails(lambda: hvd.allreduce(1.0))\n"
        )
        ranks.wait_for_flags("gave up")
        ranks.wait_until_still(0, 2, 3)
        (tmp_path / "die").touch()
        assert ranks.wait() == {0: 0, 1: 7, 2: 0, 3: 0}, ranks.outputs()
        for rank in (0, 2, 3):
            told = ranks.last(rank)
            # Why rank 1 gave up, in its own words; its death is what brought the others back from
            # waiting for it.
            assert "Too many open files" in told["text"], told
            assert told["at"] - ranks.last(1)["at"] < within(PROMPT), told


def test_ranks_of_different_releases_are_told_which_runs_what(tmp_path: Path) -> None:
    """Even if they would understand each other: it is a mistake, and what it does shows later, if
    at all."""
    with Ranks(tmp_path, 3) as ranks:
        ranks.all_end_well(
            "if RANK == 1: hvd.__version__ = '9.9.9'\n"
            "try: hvd.init()\nexcept (ValueError, hvd.PeerLostError) as error: "
            "tell(text=str(error))\nelse: tell(text='let in')\n",
            HVDLITE_HOST_ID="node1",
        )
        for rank in range(3):
            # Or, where another rank was quicker: it could not join the job, and this is why.
            assert ranks.last(rank)["text"].endswith(
                "the ranks run different releases of hvdlite: ranks 0, 2 on node1 run "
                f"{hvdlite.__version__}; "
                "rank 1 on node1 runs 9.9.9. Install the same release on all hosts"
            )
