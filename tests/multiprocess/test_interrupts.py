"""Ctrl-C in a rank."""

from __future__ import annotations

import signal
import time

import pytest
from bare_ranks import Ranks
from launched import Job
from machine import within

Hosts = tuple[str, ...]


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
def test_ctrl_c_in_a_blocking_operation_is_a_keyboard_interrupt_at_once(
    two_ranks: Ranks, blocking: str
) -> None:
    two_ranks.start(
        "hvd.init(); hvd.barrier()\n"
        "if RANK == 0:\n"
        "    handle = hvd.allreduce_async(np.ones(3), name='handle')\n"
        "    try:\n"
        "        flag_when_inside('waits'); " + blocking + "; tell(interrupted=False)\n"
        "    except KeyboardInterrupt:\n"
        "        tell(interrupted=True)\n"
        "    flag('go')\n"
        "else:\n"
        "    wait_flag('go')\n"
    )
    two_ranks.wait_for_flags("waits")
    sent = two_ranks.kill(0, signal.SIGINT)
    codes = two_ranks.wait(20)
    told = two_ranks.last(0)
    assert told["interrupted"], told
    # Nothing else would have ended its wait.
    assert told["at"] - sent < within(5), f"KeyboardInterrupt came after {told['at'] - sent:.2f} s"
    assert codes == {0: 0, 1: 0}, f"{codes}\n{two_ranks.outputs()}"


def test_after_ctrl_c_the_interrupted_operation_goes_on_and_the_job_too(three_ranks: Ranks) -> None:
    three_ranks.start(
        "hvd.init(); hvd.barrier()\n"
        "big = np.full(100_000, 1.0)\n"
        "if RANK == 0:\n"
        "    handle = hvd.allreduce_async(np.ones(3), op=hvd.Sum, name='handle')\n"
        "    for turn in range(3):\n"
        "        try:\n"
        "            flag_when_inside(f'waits.{turn}'); hvd.synchronize(handle); "
        "tell(interrupted=False)\n"
        "        except KeyboardInterrupt: tell(interrupted=True)\n"
        "    flag_when_inside('waits.3')\n"
        "    try: hvd.allreduce_(big, op=hvd.Sum, name='big')\n"
        "    except KeyboardInterrupt: pass\n"
        "    import sys\n"
        "    assert sys.getrefcount(big) > 2, 'the engine still writes into it, so somebody must "
        "hold it'\n"
        "    flag('go'); del big\n"
        "else:\n"
        "    wait_flag('go')\n"
        "    hvd.allreduce_(big, op=hvd.Sum, name='big')\n"
        "    handle = hvd.allreduce_async(np.ones(3), op=hvd.Sum, name='handle')\n"
        "assert (hvd.synchronize(handle) == 3).all()\n"
        "assert hvd.allreduce(1, op=hvd.Sum) == 3\n"
    )
    for turn in range(4):
        three_ranks.wait_for_flags(f"waits.{turn}")
        three_ranks.kill(0, signal.SIGINT)
    three_ranks.end_well()
    assert [line["interrupted"] for line in three_ranks.told(0)] == [True] * 3


def test_ctrl_c_while_init_waits_for_the_others(two_ranks: Ranks) -> None:
    two_ranks.start(
        "try: hvd.init(); tell(interrupted=False)\nexcept KeyboardInterrupt: "
        "tell(interrupted=True)\n",
        ranks=[0],
        HVDLITE_START_TIMEOUT="600",
    )
    two_ranks.wait_for_members(0)
    two_ranks.wait_until_still(0)
    sent = two_ranks.kill(0, signal.SIGINT)
    two_ranks.wait(25)
    assert two_ranks.last(0)["interrupted"]
    assert two_ranks.last(0)["at"] - sent < within(5)


def test_an_uncaught_ctrl_c_in_one_rank_ends_the_job_under_the_launcher(job: Job) -> None:
    script = job.script(
        "import os, numpy as np, hvdlite as hvd\n"
        "hvd.init(); open(f'pid.{hvd.rank()}', 'w').write(str(os.getpid()))\n"
        "while True:\n"
        "    hvd.allreduce(np.ones(3))\n"
        "    open(f'ready.{hvd.rank()}', 'w').close()\n"
    )
    import sys

    process = job.start("-np", "2", sys.executable, script)
    job.wait_for_files(["ready.0", "ready.1"])
    process.send_signal(signal.SIGINT)
    start = time.monotonic()
    process.communicate()
    assert time.monotonic() - start < within(8)
    assert process.returncode == 130
