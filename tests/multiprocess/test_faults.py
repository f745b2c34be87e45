"""Ranks that die, freeze or raise: the others are told who and why within a second. Ranks here have no launcher, which
would end them all."""

from __future__ import annotations

import signal
import sys
import time
from pathlib import Path

import pytest
from bare_ranks import PROMPT, Ranks, program
from launched import Job
from machine import slowness

from hvdlite.rendezvous import StoreClient

VICTIM = {
    "sigkill": "os.kill(os.getpid(), signal.SIGKILL)",
    "exit": "os._exit(3)",
    "abort": "signal.signal(signal.SIGABRT, signal.SIG_DFL); os.abort()",
}


@pytest.mark.parametrize(
    ("how", "victim"), [*((how, v) for how in ("sigkill", "exit") for v in range(3)), ("abort", 1)]
)
def test_a_rank_that_dies_while_others_wait_for_it_is_named(
    tmp_path: Path, hosts: tuple[str, ...], how: str, victim: int
) -> None:
    with Ranks(tmp_path, 3, hosts) as ranks:
        ranks.start(
            "hvd.init(); hvd.allreduce(np.ones(3), name='warm')\n"
            f"if RANK == {victim}:\n"
            "    time.sleep(0.5); tell(dying=True)\n"
            f"    {VICTIM[how]}\n"
            "until_it_fails(lambda: hvd.allreduce(np.ones(1000), name='waited for'))\n"
            "until_it_fails(lambda: hvd.allreduce(np.ones(1000), name='later'))\n"
        )
        codes = ranks.wait()
        assert codes[victim] != 0
        death = ranks.last(victim)["at"]
        for rank in {0, 1, 2} - {victim}:
            assert codes[rank] == 0, ranks.outputs()
            ranks.expect_named(rank, victim, death)
            first, second = ranks.report(rank)
            assert second["at"] - first["at"] < PROMPT * slowness(), "a later operation fails at once"
            assert first["text"] == second["text"]


@pytest.mark.parametrize("victim", [0, 2])
def test_a_rank_that_dies_in_the_middle_of_a_large_transfer_is_named(
    tmp_path: Path, hosts: tuple[str, ...], victim: int
) -> None:
    with Ranks(tmp_path, 3, hosts) as ranks:
        ranks.start(
            "hvd.init(); big = np.ones(16 << 20, np.float32)\n"
            f"if RANK == {victim}:\n"
            "    def die():\n"
            "        time.sleep(0.7); tell(dying=True); os.kill(os.getpid(), signal.SIGKILL)\n"
            "    threading.Thread(target=die).start()\n"
            "until_it_fails(lambda: hvd.allreduce_(big, name='big'))\n"
        )
        ranks.wait()
        for rank in {0, 1, 2} - {victim}:
            ranks.expect_named(rank, victim, ranks.last(victim)["at"])


@pytest.mark.parametrize("victim", [0, 1])
def test_a_death_while_the_others_compute_is_reported_by_their_next_operation(
    tmp_path: Path, hosts: tuple[str, ...], victim: int
) -> None:
    with Ranks(tmp_path, 3, hosts) as ranks:
        ranks.start(
            "hvd.init(); hvd.allreduce(np.ones(3))\n"
            f"if RANK == {victim}: tell(dying=True); os._exit(5)\n"
            "end = time.monotonic() + 2\n"
            "while time.monotonic() < end: sum(range(1000))\n"
            "tell(computed=True)\n"
            "until_it_fails(lambda: hvd.allreduce(np.ones(3)))\n"
        )
        ranks.wait()
        for rank in {0, 1, 2} - {victim}:
            ranks.expect_named(rank, victim, ranks.report(rank)[0]["at"])


@pytest.mark.parametrize("victim", [0, 1])
def test_an_outstanding_handle_fails_without_anybody_waiting_for_it(
    tmp_path: Path, hosts: tuple[str, ...], victim: int
) -> None:
    with Ranks(tmp_path, 3, hosts) as ranks:
        ranks.start(
            "hvd.init(); hvd.allreduce(np.ones(3))\n"
            f"if RANK == {victim}: time.sleep(0.3); tell(dying=True); os._exit(5)\n"
            "handle = hvd.allreduce_async(np.ones(3), name='never')\n"
            "while not hvd.poll(handle): time.sleep(0.001)\n"
            "until_it_fails(lambda: hvd.synchronize(handle))\n"
        )
        ranks.wait()
        for rank in {0, 1, 2} - {victim}:
            ranks.expect_named(rank, victim, ranks.last(victim)["at"])


def test_an_exception_travels_to_the_others_with_its_text(tmp_path: Path, hosts: tuple[str, ...]) -> None:
    with Ranks(tmp_path, 3, hosts) as ranks:
        ranks.start(
            "hvd.init(); hvd.allreduce(np.ones(3))\n"
            "if RANK == 1:\n"
            "    time.sleep(0.3); tell(dying=True); raise KeyError('the missing label')\n"
            "until_it_fails(lambda: hvd.allreduce(np.ones(3)))\n"
        )
        codes = ranks.wait()
        assert codes == {0: 0, 1: 1, 2: 0}, ranks.outputs()
        for rank in (0, 2):
            ranks.expect_named(rank, 1, ranks.last(1)["at"])
            assert "KeyError" in ranks.last(rank)["text"] and "the missing label" in ranks.last(rank)["text"]


def test_an_exception_in_init_of_one_rank_does_not_keep_the_others_waiting(tmp_path: Path) -> None:
    with Ranks(tmp_path, 2) as ranks:
        ranks.start(
            "start = time.monotonic()\n"
            "try:\n    hvd.init()\nexcept ValueError as error:\n    tell(text=str(error))\n"
            "else:\n    tell(text='')\n",
            HVDLITE_CYCLE_TIME="soon",
        )
        ranks.wait(10)
        for rank in (0, 1):
            assert "HVDLITE_CYCLE_TIME='soon'" in ranks.last(rank)["text"]


# It has told the store that it exists, and dies before the ranks have met.
_DIES_IN_INIT = """
if RANK == VICTIM:
    threading.Thread(target=lambda: (wait_flag('die'), tell(dying=True), os._exit(7)), daemon=True).start()
elif RANK == (1 if VICTIM == 2 else 2):
    wait_flag('die'); wait_flag(f'report.{VICTIM}'); time.sleep(0.2)
tell()
try:
    hvd.init(); until_it_fails(lambda: hvd.allreduce(np.ones(1)))
except Exception as error:
    tell(error=type(error).__name__, text=str(error), peer=getattr(error, 'rank', None))
"""


@pytest.mark.parametrize("victim", [0, 1, 2])
def test_a_rank_that_dies_during_init_is_named_without_a_launcher(
    tmp_path: Path, hosts: tuple[str, ...], victim: int
) -> None:
    with Ranks(tmp_path, 3, hosts) as ranks:
        ranks.start(f"VICTIM = {victim}\n" + _DIES_IN_INIT)
        with StoreClient(ranks.server.address, ranks.secret) as store:
            store.get(f"init/0/member/{victim}", 20 * slowness())
        (tmp_path / "die").touch()
        codes = ranks.wait(20)
        assert codes[victim] == 7, "the test itself"
        failures = []
        for rank in {0, 1, 2} - {victim}:
            try:
                # Who comes after the death hears of it then.
                ranks.expect_named(rank, victim, max(ranks.last(victim)["at"], ranks.report(rank)[0]["at"]))
            except AssertionError as error:
                failures.append(str(error))
    assert not failures, "\n".join(failures)


@pytest.mark.parametrize("victim", [0, 2])
def test_a_rank_that_dies_during_init_ends_the_job_under_the_launcher(job: Job, victim: int) -> None:
    soon = f"VICTIM = {victim}\nif RANK == 1: threading.Timer(0.7, flag, ('die',)).start()\n"
    script = job.script(program(soon + _DIES_IN_INIT))
    start = time.monotonic()
    done = job.run("-np", "3", sys.executable, script, HVDLITE_START_TIMEOUT="300")
    assert time.monotonic() - start < 30 * slowness(), done.stderr
    assert done.returncode == 7
    assert f"rank {victim} on localhost exited with code 7".encode() in done.stderr


def test_a_rank_that_never_comes_is_named_when_the_start_timeout_has_passed(
    tmp_path: Path, hosts: tuple[str, ...]
) -> None:
    limit = 2 * slowness()  # or the one that is put aside is missed as well
    with Ranks(tmp_path, 3, hosts) as ranks:
        ranks.start(
            "flag(f'here.{RANK}'); wait_flag(f'here.{1 - RANK}')\n"
            "start = time.monotonic()\n"
            "try:\n    hvd.init()\n"
            "except Exception as error:\n    tell(error=type(error).__name__, text=str(error), took=time.monotonic() - start)\n",
            ranks=[0, 1],
            HVDLITE_START_TIMEOUT=f"{limit:g}",
        )
        ranks.wait()
        for rank in (0, 1):
            told = ranks.last(rank)
            assert told["error"] == "TimeoutError"
            assert "rank 2 " in told["text"] and "HVDLITE_START_TIMEOUT" in told["text"], told
            assert f"{limit:g} s" in told["text"], told
            assert told["took"] < limit + PROMPT * slowness(), told


def test_a_frozen_rank_is_reported_after_the_heartbeat_limit(tmp_path: Path, hosts: tuple[str, ...]) -> None:
    limit = 2.5 * slowness()  # or a rank that has to wait for a processor is taken for frozen
    with Ranks(tmp_path, 3, hosts) as ranks:
        ranks.start(
            "hvd.init(); hvd.allreduce(np.ones(3)); flag(f'ready.{RANK}')\n"
            "if RANK == 1: time.sleep(600)\n"
            "until_it_fails(lambda: hvd.allreduce(np.ones(3), name='waits'))\n",
            HVDLITE_HEARTBEAT_SECONDS=f"{limit:g}",
        )
        ranks.wait_for_flags("ready.0", "ready.1", "ready.2")
        stopped = ranks.kill(1, signal.SIGSTOP)
        for rank in (0, 2):
            ranks.processes[rank].wait(20 * slowness())
        ranks.kill(1, signal.SIGKILL)
        ranks.wait()
        for rank in (0, 2):
            ranks.expect_named(rank, 1, stopped, within=2.5 + PROMPT)
            told = ranks.last(rank)
            assert told["at"] - stopped > limit / 4, (
                "too early"
            )  # its last beat was before the stop, perhaps long before
            assert "SIGSTOP" in told["text"] and "HVDLITE_HEARTBEAT_SECONDS" in told["text"]


@pytest.mark.parametrize(
    "busy",
    [
        "time.sleep(long)",
        "ctypes.PyDLL(None).usleep(int(long * 1e6))",
        "end = time.monotonic() + long\nwhile time.monotonic() < end: pass",
    ],
    ids=["asleep", "holding the GIL", "computing"],
)
def test_a_rank_that_is_merely_busy_is_waited_for(tmp_path: Path, hosts: tuple[str, ...], busy: str) -> None:
    limit = 2 * slowness()  # or the one that is put aside is taken for dead, whatever it does
    body = "\n".join("    " + line for line in busy.splitlines())
    with Ranks(tmp_path, 3, hosts) as ranks:
        ranks.start(
            f"import ctypes\nlong = {1.5 * limit}\nhvd.init(); hvd.allreduce(np.ones(3))\n"
            f"if RANK == 1:\n{body}\n"
            "tell(result=float(hvd.allreduce(np.ones(3), op=hvd.Sum)[0]))\n",
            HVDLITE_HEARTBEAT_SECONDS=f"{limit:g}",
        )
        assert ranks.wait() == {0: 0, 1: 0, 2: 0}, ranks.outputs()
        assert all(ranks.last(rank)["result"] == 3 for rank in range(3))


def test_all_ranks_stopped_and_continued_together_go_on(tmp_path: Path) -> None:
    """A laptop's lid, a suspended virtual machine."""
    limit = 2.5 * slowness()  # the two are stopped and continued one after the other, with a pause perhaps
    with Ranks(tmp_path, 2) as ranks:
        ranks.start(
            "hvd.init(); flag(f'ready.{RANK}')\n"
            "while not os.path.exists('enough'):\n"
            "    stop = hvd.allreduce(np.array(os.path.exists('soon')), op=hvd.Max)\n"
            "    if stop: flag('enough')\n"
            "    if stop: break\n"
            "tell(fine=True)\n",
            HVDLITE_HEARTBEAT_SECONDS=f"{limit:g}",
        )
        ranks.wait_for_flags("ready.0", "ready.1")
        for rank in (0, 1):
            ranks.kill(rank, signal.SIGSTOP)
        time.sleep(1.5 * limit)
        for rank in (0, 1):
            ranks.kill(rank, signal.SIGCONT)
        time.sleep(0.5)
        (tmp_path / "soon").touch()
        assert ranks.wait() == {0: 0, 1: 0}, ranks.outputs()
        assert ranks.last(0)["fine"]


def test_a_forked_child_that_outlives_its_killed_parent_does_not_hold_back_the_news(
    tmp_path: Path, hosts: tuple[str, ...]
) -> None:
    with Ranks(tmp_path, 3, hosts) as ranks:
        ranks.start(
            "hvd.init(); hvd.allreduce(np.ones(3))\n"
            "if RANK == 1:\n"
            "    if os.fork() == 0: outlive('heard')\n"
            "    time.sleep(0.3); tell(dying=True); os.kill(os.getpid(), signal.SIGKILL)\n"
            "until_it_fails(lambda: hvd.allreduce(np.ones(3)))\n"
        )
        ranks.wait()
        for rank in (0, 2):
            ranks.expect_named(rank, 1, ranks.last(1)["at"])
        (tmp_path / "heard").touch()  # before that the child has not ended


def test_a_subprocess_that_outlives_its_killed_parent_does_not_hold_back_the_news(
    tmp_path: Path, hosts: tuple[str, ...]
) -> None:
    with Ranks(tmp_path, 3, hosts) as ranks:
        ranks.start(
            "import subprocess\n"
            "hvd.init(); hvd.allreduce(np.ones(3))\n"
            "if RANK == 1:\n"
            "    waits = 'while test ! -e heard; do sleep 0.1; done'\n"
            "    subprocess.Popen(['timeout', str(60 * SLOWNESS), 'sh', '-c', waits], close_fds=False)\n"
            "    time.sleep(0.3); tell(dying=True); os.kill(os.getpid(), signal.SIGKILL)\n"
            "until_it_fails(lambda: hvd.allreduce(np.ones(3)))\n"
        )
        ranks.wait()
        for rank in (0, 2):
            ranks.expect_named(rank, 1, ranks.last(1)["at"])
        (tmp_path / "heard").touch()
