"""init, shutdown, fork, exit, Ctrl-C, and what a job looks like from outside."""

from __future__ import annotations

import os
import random
import signal
import socket
import struct
import time
from pathlib import Path

import pytest
from bare_ranks import PRELUDE, Ranks
from launched import Job
from test_faults import hosts  # noqa: F401  (the fixture)

Hosts = tuple[str, ...]


def _fine(ranks: Ranks, seconds: float = 30) -> None:
    codes = ranks.wait(seconds)
    assert set(codes.values()) == {0}, f"{codes}\n{ranks.outputs()}"


# --- shutdown, init


def test_shutdown_then_init_again_several_times(tmp_path: Path, hosts: Hosts) -> None:  # noqa: F811
    with Ranks(tmp_path, 3, hosts) as ranks:
        ranks.start(
            "for i in range(6):\n"
            "    hvd.init(); hvd.init()\n"
            "    assert hvd.allreduce(i, op=hvd.Sum) == 3 * i\n"
            "    if i % 2: hvd.allreduce(np.ones(100_000))\n"
            "    hvd.shutdown()\n"
            "    if i % 3 == 0: hvd.shutdown()\n"
            "fds = len(os.listdir('/proc/self/fd')); threads = threading.active_count()\n"
            "for i in range(4): hvd.init(); hvd.barrier(); hvd.shutdown()\n"
            "assert len(os.listdir('/proc/self/fd')) <= fds, os.listdir('/proc/self/fd')\n"
            "assert len(os.listdir('/proc/self/task')) <= 3\n"
        )
        _fine(ranks)


def test_results_that_nobody_fetched_are_freed_by_the_next_init(tmp_path: Path) -> None:
    with Ranks(tmp_path, 2) as ranks:
        ranks.start(
            "import gc, psutil\n"
            "def once():\n"
            "    hvd.init()\n"
            "    for i in range(4): hvd.allgather_async(np.ones(1 << 18), name=f'{i}')\n"
            "    hvd.barrier(); hvd.shutdown(); gc.collect()\n"
            "for _ in range(4): once()\n"
            "before = psutil.Process().memory_info().rss\n"
            "for _ in range(10): once()\n"
            "tell(grown=psutil.Process().memory_info().rss - before)\n"
        )
        _fine(ranks)
        # Kept, they would be 160 MiB; what the allocator holds back differs from machine to machine.
        assert ranks.last(0)["grown"] < 64 << 20, ranks.last(0)


def test_init_again_after_a_peer_was_lost(tmp_path: Path, hosts: Hosts) -> None:  # noqa: F811
    """Elastic training stands on this: survivors leave the broken job; what then starts is a new one."""
    with Ranks(tmp_path, 3, hosts) as ranks:
        ranks.start(
            "hvd.init(); hvd.allreduce(np.ones(3))\n"
            "if RANK == 1: time.sleep(0.2); os._exit(1)\n"
            "until_it_fails(lambda: hvd.allreduce(np.ones(3)))\n"
            "start = time.monotonic()\n"
            "hvd.shutdown()\n"
            "took = time.monotonic() - start\n"
            "for n in ('HVDLITE_SIZE', 'HVDLITE_LOCAL_SIZE'): os.environ[n] = '2'\n"
            "os.environ['HVDLITE_RANK'] = os.environ['HVDLITE_LOCAL_RANK'] = str(RANK // 2)\n"
            "hvd.init()\n"
            "tell(took=took, size=hvd.size(), sum=float(hvd.allreduce(1.0, op=hvd.Sum)))\n"
        )
        codes = ranks.wait()
        assert codes == {0: 0, 1: 1, 2: 0}, ranks.outputs()
        for rank in (0, 2):
            told = ranks.last(rank)
            assert (told["size"], told["sum"]) == (2, 2.0)
            assert told["took"] < 1.5, "shutdown of a job that has failed does not wait for the dead"


def test_a_rank_that_finishes_first_does_not_fail_what_the_others_have_in_flight(
    tmp_path: Path,
    hosts: Hosts,  # noqa: F811
) -> None:
    with Ranks(tmp_path, 3, hosts) as ranks:
        ranks.start(
            "hvd.init()\n"
            "places = [np.full(50_000, 1.0) for i in range(30)]\n"
            "handles = [hvd.allreduce_async_(p, op=hvd.Sum, name=f'{i}') for i, p in enumerate(places)]\n"
            "if RANK != 0: time.sleep(0.2 * RANK)\n"
            "if RANK == 0: hvd.shutdown()\n"
            "for h in handles: hvd.synchronize(h)\n"
            "assert all((p == 3).all() for p in places)\n"
        )
        _fine(ranks)


@pytest.mark.parametrize("ending", ["", "sys.exit(0)", "hvd.shutdown()", "raise SystemExit"])
def test_exit_with_or_without_shutdown_is_success_and_quick(tmp_path: Path, ending: str, hosts: Hosts) -> None:  # noqa: F811
    with Ranks(tmp_path, 3, hosts) as ranks:
        ranks.start(f"hvd.init(); hvd.allreduce(np.ones(4)); tell(ends=True)\n{ending}\n")
        _fine(ranks)
        ended = time.monotonic()
        assert ended - min(ranks.last(r)["at"] for r in range(3)) < 5
        assert "rror" not in ranks.outputs(), ranks.outputs()


def test_the_exit_code_is_the_programs_own(tmp_path: Path) -> None:
    with Ranks(tmp_path, 2) as ranks:
        ranks.start("hvd.init(); hvd.allreduce(np.ones(4)); hvd.allreduce_async(np.ones(3)); sys.exit(40 + RANK)\n")
        assert ranks.wait() == {0: 40, 1: 41}


@pytest.mark.parametrize("again", range(4))
def test_exit_while_daemon_threads_wait_for_what_never_comes(tmp_path: Path, again: int) -> None:
    with Ranks(tmp_path, 2) as ranks:
        ranks.start(
            "hvd.init(); hvd.barrier()\n"
            "hvd.allreduce_async(np.ones(3), name=f'only here {RANK}')\n"
            "def wait(i):\n"
            "    try: hvd.allreduce(np.ones(3), name=f'waits {i} {RANK}')\n"
            "    except hvd.ShutDownError: pass\n"
            "for i in range(4): threading.Thread(target=wait, args=(i,), daemon=True).start()\n"
            "time.sleep(0.2); tell(ends=True)\n"
        )
        _fine(ranks, 20)
        assert not ranks.outputs().count("erminate")


def test_the_program_works_alone_without_a_launcher(job: Job) -> None:
    import subprocess
    import sys

    program = job.script(
        "import numpy as np, hvdlite as hvd\n"
        "hvd.init(); assert (hvd.rank(), hvd.size()) == (0, 1)\n"
        "assert hvd.allreduce(np.ones(3)).sum() == 3 and hvd.join() == 0\n"
    )
    done = subprocess.run([sys.executable, program], env=job.environment(), capture_output=True, timeout=30)
    assert done.returncode == 0, done.stderr


# --- fork


def test_a_forked_child_cannot_submit_and_its_end_changes_nothing(tmp_path: Path, hosts: Hosts) -> None:  # noqa: F811
    with Ranks(tmp_path, 3, hosts) as ranks:
        ranks.start(
            "hvd.init(); hvd.allreduce(np.ones(3))\n"
            "pending = hvd.allreduce_async(np.ones(3), op=hvd.Sum, name='over the fork') if RANK == 0 else None\n"
            "for ending in ('exit', '_exit', 'kill'):\n"
            "    pid = os.fork()\n"
            "    if pid == 0:\n"
            "        said = []\n"
            "        assert not hvd.is_initialized()\n"
            "        for ask in (lambda: hvd.allreduce(np.ones(3)), hvd.rank, hvd.barrier, lambda: hvd.synchronize(pending),\n"
            "                    hvd.init, lambda: hvd.allreduce_async(np.ones(1)), lambda: hvd.add_process_set([0])):\n"
            "            try: ask(); said.append('nothing')\n"
            "            except hvd.NotInitializedError as e: said.append('not initialised')\n"
            "            except ValueError as e: said.append(str(e))\n"
            "        tell(child=ending, said=said)\n"
            "        if ending == '_exit': os._exit(0)\n"
            "        if ending == 'kill': os.kill(os.getpid(), signal.SIGKILL)\n"
            "        sys.exit(0)\n"
            "    _, status = os.waitpid(pid, 0)\n"
            "    assert os.waitstatus_to_exitcode(status) == (-9 if ending == 'kill' else 0), status\n"
            "    assert hvd.allreduce(1, op=hvd.Sum, name='after') == 3\n"
            "if RANK: pending = hvd.allreduce_async(np.ones(3), op=hvd.Sum, name='over the fork')\n"
            "assert (hvd.synchronize(pending) == 3).all()\n"
        )
        _fine(ranks)
        for rank in range(3):
            for told in ranks.report(rank):
                said = told["said"]
                # Synchronizing a handle that rank 1 and 2 do not have says nothing.
                assert [s for i, s in enumerate(said) if i != 3] == ["not initialised"] * 6, told


def test_a_multiprocessing_pool_works_beside_a_job(tmp_path: Path) -> None:
    with Ranks(tmp_path, 2) as ranks:
        ranks.start(
            "import multiprocessing\n"
            "hvd.init()\n"
            "with multiprocessing.get_context('fork').Pool(2) as pool:\n"
            "    for _ in range(3):\n"
            "        assert pool.map(abs, range(-5, 5)) == list(map(abs, range(-5, 5)))\n"
            "        assert hvd.allreduce(1, op=hvd.Sum) == 2\n"
        )
        _fine(ranks)


# --- Ctrl-C


@pytest.mark.parametrize(
    "blocking",
    [
        "hvd.allreduce(np.ones(3), name='waits')",
        "hvd.synchronize(handle)",
        "hvd.barrier()",
        "hvd.join()",
        "hvd.allgather_object(1)",
        "hvd.add_process_set([0])",
    ],
)
def test_ctrl_c_in_a_blocking_operation_is_a_keyboard_interrupt_at_once(tmp_path: Path, blocking: str) -> None:
    with Ranks(tmp_path, 2) as ranks:
        ranks.start(
            "hvd.init(); hvd.barrier()\n"
            "if RANK == 0:\n"
            "    handle = hvd.allreduce_async(np.ones(3), name='handle')\n"
            "    try:\n"
            "        flag('waits'); " + blocking + "; tell(interrupted=False)\n"
            "    except KeyboardInterrupt:\n"
            "        tell(interrupted=True)\n"
            "    flag('go')\n"
            "else:\n"
            "    wait_flag('go')\n"
        )
        ranks.wait_for_flags("waits")
        time.sleep(0.5)
        sent = ranks.kill(0, signal.SIGINT)
        codes = ranks.wait(20)
        told = ranks.last(0)
        assert told["interrupted"], told
        assert told["at"] - sent < 0.5, f"KeyboardInterrupt came after {told['at'] - sent:.2f} s"
        assert codes == {0: 0, 1: 0}, f"{codes}\n{ranks.outputs()}"


def test_after_ctrl_c_the_interrupted_operation_goes_on_and_the_job_too(tmp_path: Path, hosts: Hosts) -> None:  # noqa: F811
    with Ranks(tmp_path, 3, hosts) as ranks:
        ranks.start(
            "hvd.init(); hvd.barrier()\n"
            "big = np.full(100_000, 1.0)\n"
            "if RANK == 0:\n"
            "    handle = hvd.allreduce_async(np.ones(3), op=hvd.Sum, name='handle')\n"
            "    for _ in range(3):\n"
            "        try:\n"
            "            flag('waits'); hvd.synchronize(handle); tell(interrupted=False)\n"
            "        except KeyboardInterrupt: tell(interrupted=True); flag('next')\n"
            "    try: hvd.allreduce_(big, op=hvd.Sum, name='big')\n"
            "    except KeyboardInterrupt: pass\n"
            "    import sys\n"
            "    assert sys.getrefcount(big) > 2, 'the engine still writes into it, so somebody must hold it'\n"
            "    flag('go'); del big\n"
            "else:\n"
            "    wait_flag('go')\n"
            "    hvd.allreduce_(big, op=hvd.Sum, name='big')\n"
            "    handle = hvd.allreduce_async(np.ones(3), op=hvd.Sum, name='handle')\n"
            "assert (hvd.synchronize(handle) == 3).all()\n"
            "assert hvd.allreduce(1, op=hvd.Sum) == 3\n"
        )
        for _ in range(3):
            ranks.wait_for_flags("waits")
            (tmp_path / "next").unlink(missing_ok=True)
            time.sleep(0.15)
            ranks.kill(0, signal.SIGINT)
            ranks.wait_for_flags("next")
        time.sleep(0.3)
        ranks.kill(0, signal.SIGINT)
        _fine(ranks)
        assert [line["interrupted"] for line in ranks.report(0)] == [True] * 3


def test_ctrl_c_while_init_waits_for_the_others(tmp_path: Path) -> None:
    with Ranks(tmp_path, 2) as ranks:
        ranks.start(
            "flag('waits')\n"
            "try: hvd.init(); tell(interrupted=False)\n"
            "except KeyboardInterrupt: tell(interrupted=True)\n",
            ranks=[0],
            HVDLITE_START_TIMEOUT="20",
        )
        ranks.wait_for_flags("waits")
        time.sleep(1)
        sent = ranks.kill(0, signal.SIGINT)
        ranks.wait(25)
        assert ranks.last(0)["interrupted"]
        assert ranks.last(0)["at"] - sent < 1


def test_an_uncaught_ctrl_c_in_one_rank_ends_the_job_under_the_launcher(job: Job) -> None:
    script = job.script(
        "import os, numpy as np, hvdlite as hvd\n"
        "hvd.init(); open(f'pid.{hvd.rank()}', 'w').write(str(os.getpid()))\n"
        "open(f'ready.{hvd.rank()}', 'w').close()\n"
        "while True: hvd.allreduce(np.ones(3))\n"
    )
    import sys

    process = job.start("-np", "2", sys.executable, script)
    job.wait_for_files(["ready.0", "ready.1"])
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    start = time.monotonic()
    process.communicate()
    assert time.monotonic() - start < 8
    assert process.returncode == 130


# --- strangers


def _listening(pids: list[int]) -> list[tuple[str, str, int]]:
    """(address family, address, port) of every listening TCP socket of these processes."""
    inodes = set()
    for pid in pids:
        for fd in Path(f"/proc/{pid}/fd").iterdir():
            try:
                target = os.readlink(fd)
            except OSError:
                continue
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
    "    time.sleep(0.001)\n"
)


def test_nothing_of_a_one_host_job_listens_beyond_the_loopback(job: Job) -> None:
    import sys

    script = job.script(PRELUDE + _RUNS)
    process = job.start("-np", "2", sys.executable, script)
    job.wait_for_files(["ready.0", "ready.1"])
    listening = _listening(job.pids())
    (job.directory / "enough").touch()
    _, err = process.communicate()
    assert process.returncode == 0, err
    assert listening, "the store"
    for family, address, port in listening:
        loopback = address == "0100007F" if family == "4" else address == "00000000000000000000000001000000"
        assert loopback, f"port {port} is open at {address}"


_GARBAGE = {
    "nothing": [b""],
    "http": [b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"],
    "random": [random.Random(1).randbytes(5000)],
    "zeros": [bytes(1 << 16)],
    "ones": [b"\xff" * 4096],
    "huge length": [struct.pack("<Q", 1 << 63), struct.pack(">Q", 1 << 63), struct.pack("<I", 0xFFFFFFFF) * 64],
    "drip": [b"x", b"y", b"z"],
}


@pytest.mark.parametrize("garbage", list(_GARBAGE))
def test_garbage_on_every_open_port_leaves_the_job_unharmed(tmp_path: Path, garbage: str, hosts: Hosts) -> None:  # noqa: F811
    with Ranks(tmp_path, 3, hosts) as ranks:
        ranks.start(_RUNS)
        ranks.wait_for_flags("ready.0", "ready.1", "ready.2")
        ports = [(f, p) for f, _, p in _listening(list(ranks.job.pids()))] + [("4", ranks.server.address[1])]
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
        (tmp_path / "enough").touch()
        _fine(ranks)


def test_a_member_with_the_wrong_secret_does_not_get_in(tmp_path: Path) -> None:
    with Ranks(tmp_path, 2) as ranks:
        ranks.start(_RUNS, ranks=[0], HVDLITE_START_TIMEOUT="15")
        right, ranks.secret = ranks.secret, bytes(32)
        ranks.start("try: hvd.init()\nexcept Exception as e: tell(text=str(e))\n", ranks=[1])
        assert ranks.processes[1].wait(15) == 0
        assert "secret" in ranks.last(1)["text"] or "handshake" in ranks.last(1)["text"], ranks.last(1)
        ranks.secret = right
        ranks.start(_RUNS, ranks=[1])
        ranks.wait_for_flags("ready.0", "ready.1")
        (tmp_path / "enough").touch()
        _fine(ranks)


# --- little room


def test_more_ranks_than_cores(tmp_path: Path) -> None:
    with Ranks(tmp_path, 8) as ranks:
        ranks.start(
            "hvd.init()\n"
            "for i in range(50):\n"
            "    assert hvd.allreduce(i, op=hvd.Sum) == 8 * i\n"
            "    assert (hvd.allreduce(np.full(30_000, 1.0), op=hvd.Sum, name='big') == 8).all()\n"
            "hvd.barrier(); hvd.shutdown()\n"
        )
        _fine(ranks, 50)


def test_all_ranks_on_one_core(tmp_path: Path, hosts: Hosts) -> None:  # noqa: F811
    with Ranks(tmp_path, 3, hosts) as ranks:
        ranks.start(
            "hvd.init()\n"
            "start = time.monotonic()\n"
            "for i in range(200): assert hvd.allreduce(i, op=hvd.Sum) == 3 * i\n"
            "handles = [hvd.allreduce_async(np.ones(1000), op=hvd.Sum) for _ in range(50)]\n"
            "assert all((hvd.synchronize(h) == 3).all() for h in handles)\n"
            "tell(took=time.monotonic() - start)\n",
            prefix=["taskset", "-c", "0"],
        )
        _fine(ranks, 50)
        assert ranks.last(0)["took"] < 20


def test_random_delays_everywhere(tmp_path: Path, hosts: Hosts) -> None:  # noqa: F811
    with Ranks(tmp_path, 3, hosts) as ranks:
        ranks.start(
            "hvd.init()\n"
            "rng = np.random.default_rng(RANK)\n"
            "for i in range(20):\n"
            "    order = rng.permutation(10)\n"
            "    handles = {int(k): hvd.allreduce_async(np.full(2000, k), op=hvd.Sum, name=f'{k}') for k in order}\n"
            "    assert all((hvd.synchronize(h) == 3 * k).all() for k, h in handles.items())\n"
            "    assert hvd.allgather(np.full(RANK, i)).tolist() == [i] * 3\n",
            HVDLITE_DEBUG_DELAY_MICROSECONDS="2000",
        )
        _fine(ranks, 50)


@pytest.mark.watchdog(150)
def test_memory_does_not_grow_over_a_hundred_thousand_operations(tmp_path: Path) -> None:
    with Ranks(tmp_path, 2) as ranks:
        ranks.start(
            "signal.alarm(140)\n"
            "import gc, psutil\n"
            "hvd.init(); me = psutil.Process()\n"
            "t, small = np.ones(1000, np.float32), np.ones(1)\n"
            "def some(n):\n"
            "    for i in range(n):\n"
            "        hvd.allreduce_(small, name=f'a{i % 50}')\n"
            "        hvd.synchronize(hvd.allreduce_async(t))\n"
            "        hvd.allgather(small, name='g')\n"
            "        hvd.grouped_allreduce([small, t])\n"
            "        if i % 50 == 0:\n"
            "            try: hvd.allreduce(np.ones(2 + RANK), name='m')\n"
            "            except hvd.MismatchError: pass\n"
            "some(3000); gc.collect(); before = me.memory_info().rss\n"
            "some(22_000); gc.collect(); grown = me.memory_info().rss - before\n"
            "tell(grown=grown)\n"
        )
        _fine(ranks, 140)
        for rank in (0, 1):
            assert ranks.last(rank)["grown"] < 3 << 20, f"{ranks.last(rank)['grown'] / 1e6:.1f} MB"


def test_an_idle_process_costs_next_to_nothing(tmp_path: Path) -> None:
    with Ranks(tmp_path, 2) as ranks:
        ranks.start(
            "hvd.init(); hvd.allreduce(np.ones(3)); hvd.barrier()\n"
            "before = time.process_time(); time.sleep(4); used = time.process_time() - before\n"
            "hvd.barrier(); tell(share=used / 4)\n"
        )
        _fine(ranks)
        for rank in (0, 1):
            assert ranks.last(rank)["share"] < 0.005, f"{100 * ranks.last(rank)['share']:.2f} % of a core"


def test_waiting_for_a_late_rank_does_not_burn_a_core(tmp_path: Path) -> None:
    with Ranks(tmp_path, 2) as ranks:
        ranks.start(
            "hvd.init(); hvd.barrier()\n"
            "if RANK == 1: time.sleep(3)\n"
            "before = time.process_time(); hvd.allreduce(np.ones(3)); tell(used=time.process_time() - before)\n"
        )
        _fine(ranks)
        assert ranks.last(0)["used"] < 0.15, ranks.last(0)


def test_waiting_for_a_list_ends_all_of_it_and_raises_the_first_error(tmp_path: Path) -> None:
    with Ranks(tmp_path, 2) as ranks:
        ranks.start(
            "from hvdlite import _core\n"
            "hvd.init()\n"
            "x = [np.full(4, i, np.float32) for i in range(5)]\n"
            "def submit(i):\n"
            "    mine = x[i][:3] if i in (1, 3) and RANK == 1 else x[i]\n"
            "    return _core.submit(0, 1, 0, f'x{i}', mine, mine, 0, 1.0, 1.0, [])\n"
            "handles = [submit(i) for i in range(5)]\n"
            "try: _core.wait_all(handles); assert False\n"
            "except hvd.MismatchError as error: assert \"'x1'\" in str(error), error\n"
            "assert handles == [] and (x[4] == 8).all() and (x[1] == 1).all()\n"
            "handles = [submit(0), submit(2)]\n"
            "_core.wait_all(handles)\n"
            "assert handles == [] and (x[2] == 8).all()\n"
        )
        _fine(ranks)


def test_settings_that_must_be_equal_are_compared(tmp_path: Path) -> None:
    with Ranks(tmp_path, 2) as ranks:
        program = (
            "try: hvd.init(); assert False\nexcept (ValueError, hvd.PeerLostError) as error: tell(text=str(error))\n"
        )
        ranks.start(program, ranks=[0])
        ranks.start(program, ranks=[1], HVDLITE_SHM_SMALL_BYTES="0")
        _fine(ranks)
        for rank in range(2):
            text = ranks.last(rank)["text"]
            assert "rank 0 has HVDLITE_SHM_SMALL_BYTES=32768 and rank 1 has HVDLITE_SHM_SMALL_BYTES=0" in text, text


@pytest.mark.parametrize("leaver", [1, 3])
def test_what_a_rank_has_announced_before_it_leaves_still_happens(tmp_path: Path, leaver: int) -> None:
    """Also when it is another's to pass on."""
    with Ranks(tmp_path, 4, ("a", "a", "b", "b")) as ranks:
        ranks.start(
            "hvd.init()\n"
            "for _ in range(3): hvd.allreduce(np.ones(3), op=hvd.Sum, name='x')\n"
            f"if RANK == {leaver}:\n"
            "    handle = hvd.allreduce_async(np.ones(3), op=hvd.Sum, name='x')\n"
            "    hvd.shutdown()\n"
            "else:\n"
            "    time.sleep(0.4)\n"
            "    assert (hvd.allreduce(np.ones(3), op=hvd.Sum, name='x') == 4).all()\n"
        )
        _fine(ranks)


def test_a_long_cycle_time_does_not_look_like_death(tmp_path: Path) -> None:
    with Ranks(tmp_path, 2) as ranks:
        ranks.start(
            "hvd.init()\n"
            "handle = hvd.allreduce_async(np.ones(3), op=hvd.Sum, name='x')\n"
            "time.sleep(4)\n"
            "assert (hvd.synchronize(handle) == 2).all()\n",
            HVDLITE_CYCLE_TIME="15000",
            HVDLITE_HEARTBEAT_SECONDS="2",
        )
        _fine(ranks)
