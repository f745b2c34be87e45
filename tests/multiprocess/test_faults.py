"""Ranks that die, freeze or raise: the others are told who and why. Ranks here have no launcher,
which would end them all.

When heartbeats accuse whom is tested with a clock of the test's own:
tests/cpp/engine/observe/silence_test.cc.
"""

from __future__ import annotations

import json
import signal
import sys
import time
from pathlib import Path

import pytest
from bare_ranks import PROMPT, Ranks, program
from launched import PATIENT, Job
from machine import within

from hvdlite.exceptions import Cause

VICTIM = {
    "sigkill": "os.kill(os.getpid(), signal.SIGKILL)",
    "exit": "os._exit(3)",
    "abort": "signal.signal(signal.SIGABRT, signal.SIG_DFL); os.abort()",
}


@pytest.mark.parametrize(
    ("how", "victim"), [*((how, v) for how in ("sigkill", "exit") for v in range(3)), ("abort", 1)]
)
def test_a_rank_that_dies_while_others_wait_for_it_is_named(
    three_ranks: Ranks, how: str, victim: int
) -> None:
    three_ranks.start(
        "hvd.init(); hvd.allreduce(np.ones(3), name='warm')\n"
        f"if RANK == {victim}:\n"
        "    wait_for_others('inside'); tell(dying=True)\n"
        f"    {VICTIM[how]}\n"
        "flag_when_inside()\n"
        "until_it_fails(lambda: hvd.allreduce(np.ones(1000), name='waited for'))\n"
        "until_it_fails(lambda: hvd.allreduce(np.ones(1000), name='later'))\n"
    )
    codes = three_ranks.wait()
    assert codes[victim] != 0
    death = three_ranks.last(victim)["at"]
    for rank in {0, 1, 2} - {victim}:
        assert codes[rank] == 0, three_ranks.outputs()
        three_ranks.expect_named(rank, victim, death)
        first, second = three_ranks.told(rank)
        assert second["at"] - first["at"] < within(PROMPT), "a later operation fails at once"
        assert first["text"] == second["text"]
        three_ranks.expect_loss(rank, (Cause.DIED, Cause.CLOSED), victim)


@pytest.mark.parametrize("victim", [0, 2])
def test_a_rank_that_dies_in_the_middle_of_a_large_transfer_is_named(
    three_ranks: Ranks, victim: int
) -> None:
    three_ranks.start(
        "hvd.init(); big = np.ones(16 << 20, np.float32)\n"
        "def die():\n"
        "    wait_for_others('under way'); wait_until_inside(); tell(dying=True); "
        "os.kill(os.getpid(), signal.SIGKILL)\n"
        f"if RANK == {victim}: threading.Thread(target=die).start()\n"
        "until_it_fails(lambda: (hvd.allreduce_(big, name='big'), flag(f'under way.{RANK}')))\n"
    )
    three_ranks.wait()
    three_ranks.all_hear_of(victim)


@pytest.mark.parametrize("victim", [0, 1])
def test_a_death_while_the_others_compute_is_reported_by_their_next_operation(
    three_ranks: Ranks, victim: int
) -> None:
    three_ranks.start(
        "hvd.init(); hvd.allreduce(np.ones(3))\n"
        f"if RANK == {victim}: wait_for_others('computes'); os._exit(5)\n"
        "flag(f'computes.{RANK}')\n"
        "while not os.path.exists('dead'): sum(range(1000))\n"
        "tell(computed=True)\n"
        "until_it_fails(lambda: hvd.allreduce(np.ones(3)))\n"
    )
    assert three_ranks.processes[victim].wait(within(30)) == 5
    (three_ranks.directory / "dead").touch()
    three_ranks.wait()
    for rank in {0, 1, 2} - {victim}:
        three_ranks.expect_named(rank, victim, three_ranks.told(rank)[0]["at"])


@pytest.mark.parametrize("victim", [0, 1])
def test_an_outstanding_handle_fails_without_anybody_waiting_for_it(
    three_ranks: Ranks, victim: int
) -> None:
    three_ranks.start(
        "hvd.init(); hvd.allreduce(np.ones(3))\n"
        f"if RANK == {victim}: wait_for_others('submitted'); tell(dying=True); os._exit(5)\n"
        "handle = hvd.allreduce_async(np.ones(3), name='never'); flag(f'submitted.{RANK}')\n"
        "while not hvd.poll(handle): time.sleep(0.001)\n"  # poll
        "until_it_fails(lambda: hvd.synchronize(handle))\n"
    )
    three_ranks.wait()
    three_ranks.all_hear_of(victim)


def test_an_exception_travels_to_the_others_with_its_text(three_ranks: Ranks) -> None:
    three_ranks.start(
        "hvd.init(); hvd.allreduce(np.ones(3))\n"
        "if RANK == 1:\n"
        "    wait_for_others('inside'); tell(dying=True); raise KeyError('the missing label')\n"
        "flag_when_inside()\n"
        "until_it_fails(lambda: hvd.allreduce(np.ones(3)))\n"
    )
    codes = three_ranks.wait()
    assert codes == {0: 0, 1: 1, 2: 0}, three_ranks.outputs()
    for rank in (0, 2):
        three_ranks.expect_named(rank, 1, three_ranks.last(1)["at"])
        three_ranks.expect_loss(rank, (Cause.FAILED,), 1)
        assert (
            "KeyError" in three_ranks.last(rank)["text"]
            and "the missing label" in three_ranks.last(rank)["text"]
        )


def test_an_exception_in_init_of_one_rank_does_not_keep_the_others_waiting(
    two_ranks: Ranks,
) -> None:
    two_ranks.start(
        "start = time.monotonic()\n"
        "try:\n    hvd.init()\nexcept ValueError as error:\n    tell(text=str(error))\n"
        "else:\n    tell(text='')\n",
        HVDLITE_CYCLE_TIME="soon",
    )
    two_ranks.wait(10)
    for rank in (0, 1):
        assert "HVDLITE_CYCLE_TIME='soon'" in two_ranks.last(rank)["text"]


# It has told the store that it exists, and dies before the ranks have met: one of the others comes
# when it has ended.
_DIES_IN_INIT = """
import select
from hvdlite.launch import environment
from hvdlite.rendezvous import StoreClient
def die_when_known():
    me = environment.discover(os.environ)
    with StoreClient(me.rendezvous, me.secret) as store:
        store.get(f'init/0/member/{VICTIM}', within(20))
    tell(dying=True); os._exit(7)
if RANK == VICTIM:
    with open('victim.new', 'w') as file: file.write(str(os.getpid()))
    os.rename('victim.new', 'victim')
    threading.Thread(target=die_when_known, daemon=True).start()
elif RANK == (1 if VICTIM == 2 else 2):
    wait_flag('victim')
    try: select.select([os.pidfd_open(int(open('victim').read()))], [], [], within(20))
    except ProcessLookupError: pass
tell()
try:
    hvd.init(); until_it_fails(lambda: hvd.allreduce(np.ones(1)))
except Exception as error:
    tell(error=type(error).__name__, text=str(error), peer=getattr(error, 'rank', None))
"""


@pytest.mark.parametrize("victim", [0, 1, 2])
def test_a_rank_that_dies_during_init_is_named_without_a_launcher(
    three_ranks: Ranks, victim: int
) -> None:
    three_ranks.start(f"VICTIM = {victim}\n" + _DIES_IN_INIT)
    codes = three_ranks.wait(20)
    assert codes[victim] == 7, "the test itself"
    failures = []
    for rank in {0, 1, 2} - {victim}:
        try:
            # Who comes after the death hears of it then.
            three_ranks.expect_named(
                rank, victim, max(three_ranks.last(victim)["at"], three_ranks.told(rank)[0]["at"])
            )
        except AssertionError as error:
            failures.append(str(error))
    assert not failures, "\n".join(failures)


@pytest.mark.parametrize("victim", [0, 2])
def test_a_rank_that_dies_during_init_ends_the_job_under_the_launcher(
    job: Job, victim: int
) -> None:
    script = job.script(program(f"VICTIM = {victim}\n" + _DIES_IN_INIT))
    start = time.monotonic()
    done = job.run("-np", "3", sys.executable, script, HVDLITE_START_TIMEOUT="300")
    assert time.monotonic() - start < within(30), done.stderr
    assert done.returncode == 7
    assert f"rank {victim} on localhost exited with code 7".encode() in done.stderr


@pytest.mark.parametrize("before", ["", "hvd.init(); hvd.shutdown()\n"], ids=["first", "next"])
@pytest.mark.parametrize("how", ["sigkill", "exit"])
def test_the_launcher_tells_ranks_in_init_of_one_that_has_not_come_there(
    job: Job, how: str, before: str
) -> None:
    """They are not ended before they have heard, and need not wait for --start-timeout."""
    script = program(
        f"signal.signal(signal.SIGTERM, signal.SIG_IGN)\nflag(f'ignores.{{RANK}}')\n{before}"
        f"if RANK == 1: wait_for_others('ignores'); {VICTIM[how]}\n"
        "try:\n    hvd.init()\nexcept hvd.PeerLostError as error:\n"
        "    tell(peer=error.rank, text=str(error))\n"
    )
    done = job.run(
        "-np", "3", "--grace-seconds", PATIENT, sys.executable, job.script(script),
        HVDLITE_START_TIMEOUT=PATIENT,
    )  # fmt: skip
    assert done.returncode == {"sigkill": 137, "exit": 3}[how], done.stderr.decode()
    code = {"sigkill": "was killed by SIGKILL", "exit": "exited with code 3"}[how]
    for rank in (0, 2):
        told = json.loads((job.directory / f"report.{rank}").read_text())
        assert told["peer"] == 1 and f"rank 1 on localhost {code}" in told["text"]
        assert told["text"].endswith("hvd.init() needs all ranks.")


# --- where time is the promise


def test_a_rank_that_never_comes_is_named_when_the_start_timeout_has_passed(tmp_path: Path) -> None:
    with Ranks(tmp_path, 3) as ranks:
        ranks.start("hvd.init()\n", ranks=[1])
        ranks.wait_for_members(1)
        ranks.start(
            "start = time.monotonic()\n"
            "try:\n    hvd.init()\n"
            "except Exception as error:\n    tell(error=type(error).__name__, text=str(error), "
            "took=time.monotonic() - start)\n",
            ranks=[0],
            HVDLITE_START_TIMEOUT="1",
        )
        ranks.wait()
        told = ranks.last(0)
        assert told["error"] == "TimeoutError"
        assert (
            "rank 2 " in told["text"]
            and "HVDLITE_START_TIMEOUT" in told["text"]
            and "1 s" in told["text"]
        ), told
        assert 1 <= told["took"] < within(PROMPT), told


def test_a_frozen_rank_is_reported_after_the_heartbeat_limit(two_ranks: Ranks) -> None:
    two_ranks.start(
        "hvd.init(); hvd.allreduce(np.ones(3))\n"
        "if RANK == 1: flag('ready.1'); signal.pause()\n"
        "flag_when_inside('ready.0')\n"
        "until_it_fails(lambda: hvd.allreduce(np.ones(3), name='waits'))\n",
        HVDLITE_HEARTBEAT_SECONDS="2",
    )
    two_ranks.wait_for_flags("ready.0", "ready.1")
    stopped = two_ranks.kill(1, signal.SIGSTOP)
    two_ranks.processes[0].wait(within(20))
    two_ranks.kill(1, signal.SIGKILL)
    two_ranks.wait()
    two_ranks.expect_named(0, 1, stopped)
    told = two_ranks.last(0)
    # its last beat was before the stop, perhaps long before
    assert told["at"] - stopped > 0.5, "too early"
    assert "SIGSTOP" in told["text"] and "HVDLITE_HEARTBEAT_SECONDS" in told["text"]
    two_ranks.expect_loss(0, (Cause.SILENT,), 1)


def test_ranks_that_are_merely_busy_are_waited_for(tmp_path: Path) -> None:
    """One waits for the others: for one that sleeps, one that holds the GIL, and one that
    computes."""
    with Ranks(tmp_path, 4) as ranks:
        ranks.all_end_well(
            "import ctypes\nlong = 3.0\nhvd.init(); hvd.allreduce(np.ones(3))\n"
            # span: longer than the limit, as in the next two lines
            "if RANK == 1: time.sleep(long)\n"
            "if RANK == 2: ctypes.PyDLL(None).usleep(int(long * 1e6))\n"  # span: see above
            "end = time.monotonic() + long\n"
            "while RANK == 3 and time.monotonic() < end: pass\n"
            "tell(result=float(hvd.allreduce(np.ones(3), op=hvd.Sum)[0]))\n",
            HVDLITE_HEARTBEAT_SECONDS="2",
        )
        assert all(ranks.last(rank)["result"] == 4 for rank in range(4))


def test_all_ranks_stopped_and_continued_together_go_on(two_ranks: Ranks) -> None:
    """A laptop's lid, a suspended virtual machine."""
    two_ranks.start(
        "hvd.init(); flag(f'ready.{RANK}')\n"
        "while not os.path.exists('enough'):\n"
        "    stop = hvd.allreduce(np.array(os.path.exists('soon')), op=hvd.Max)\n"
        "    if stop: flag('enough')\n"
        "    if stop: break\n"
        "tell(fine=True)\n",
        HVDLITE_HEARTBEAT_SECONDS="2",
    )
    two_ranks.wait_for_flags("ready.0", "ready.1")
    for rank in (0, 1):
        two_ranks.kill(rank, signal.SIGSTOP)
    time.sleep(3)  # span: longer than the limit
    for rank in (0, 1):
        two_ranks.kill(rank, signal.SIGCONT)
    time.sleep(0.5)  # span: they look at one another every 0.2 s
    (two_ranks.directory / "soon").touch()
    two_ranks.end_well()
    assert two_ranks.last(0)["fine"]


# --- what might hold back the news


@pytest.mark.parametrize(
    "leaves_a_child",
    [
        "if os.fork() == 0: outlive('heard')",
        "import subprocess; waits = 'while test ! -e heard; do sleep 0.1; done'; subprocess.Popen("
        "['timeout', str(within(60)), 'sh', '-c', waits], close_fds=False)",
    ],
    ids=["fork", "subprocess"],
)
def test_a_child_that_outlives_its_killed_parent_does_not_hold_back_the_news(
    three_ranks: Ranks, leaves_a_child: str
) -> None:
    three_ranks.start(
        "hvd.init(); hvd.allreduce(np.ones(3))\n"
        "if RANK == 1:\n"
        f"    {leaves_a_child}\n"
        "    wait_for_others('inside'); tell(dying=True); os.kill(os.getpid(), signal.SIGKILL)\n"
        "flag_when_inside()\n"
        "until_it_fails(lambda: hvd.allreduce(np.ones(3)))\n"
    )
    three_ranks.wait()
    three_ranks.all_hear_of(1)
    (three_ranks.directory / "heard").touch()  # before that the child has not ended
