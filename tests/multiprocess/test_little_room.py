"""More ranks than processors, delays, memory that does not grow, and processors that are left
alone."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from bare_ranks import Ranks
from machine import within

Hosts = tuple[str, ...]


def test_more_ranks_than_cores(tmp_path: Path) -> None:
    with Ranks(tmp_path, 8) as ranks:
        ranks.all_end_well(
            "hvd.init()\n"
            "for i in range(50):\n"
            "    assert hvd.allreduce(i, op=hvd.Sum) == 8 * i\n"
            "    assert (hvd.allreduce(np.full(30_000, 1.0), op=hvd.Sum, name='big') == 8).all()\n"
            "hvd.barrier(); hvd.shutdown()\n",
            seconds=50,
        )


@pytest.mark.skipif(shutil.which("taskset") is None, reason="no taskset")
def test_all_ranks_on_one_core(three_ranks: Ranks) -> None:
    three_ranks.all_end_well(
        "hvd.init()\n"
        "start = time.monotonic()\n"
        "for i in range(200): assert hvd.allreduce(i, op=hvd.Sum) == 3 * i\n"
        "handles = [hvd.allreduce_async(np.ones(1000), op=hvd.Sum) for _ in range(50)]\n"
        "assert all((hvd.synchronize(h) == 3).all() for h in handles)\n"
        "tell(took=time.monotonic() - start)\n",
        prefix=["taskset", "-c", str(min(os.sched_getaffinity(0)))],
        seconds=50,
    )
    assert three_ranks.last(0)["took"] < within(20)


def test_random_delays_everywhere(three_ranks: Ranks) -> None:
    three_ranks.all_end_well(
        "hvd.init()\n"
        "rng = np.random.default_rng(RANK)\n"
        "for i in range(20):\n"
        "    order = rng.permutation(10)\n"
        "    handles = {int(k): hvd.allreduce_async(np.full(2000, k), op=hvd.Sum, name=f'{k}') for "
        "k in order}\n"
        "    assert all((hvd.synchronize(h) == 3 * k).all() for k, h in handles.items())\n"
        "    assert hvd.allgather(np.full(RANK, i)).tolist() == [i] * 3\n",
        HVDLITE_DEBUG_DELAY_MICROSECONDS="2000",
        seconds=50,
    )


@pytest.mark.watchdog(150)
def test_memory_does_not_grow_over_a_hundred_thousand_operations(two_ranks: Ranks) -> None:
    two_ranks.all_end_well(
        "end_after(140)\n"
        "import gc\n"
        "hvd.init()\n"
        # Not the pages of libraries, which come and go as the machine has room.
        "def held():\n"
        "    lines = dict(line.split(':') for line in open('/proc/self/status'))\n"
        "    return sum(int(lines[kind].split()[0]) << 10 for kind in ('RssAnon', 'RssShmem'))\n"
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
        "some(3000); gc.collect(); before = held()\n"
        "some(22_000); gc.collect(); grown = held() - before\n"
        "tell(grown=grown)\n",
        seconds=140,
    )
    for rank in (0, 1):
        assert two_ranks.last(rank)["grown"] < 3 << 20, (
            f"{two_ranks.last(rank)['grown'] / 1e6:.1f} MB"
        )


def test_an_idle_process_costs_next_to_nothing(two_ranks: Ranks) -> None:
    two_ranks.all_end_well(
        "hvd.init(); hvd.allreduce(np.ones(3)); hvd.barrier()\n"
        "import resource\n"
        "def used():\n"
        "    mine = resource.getrusage(resource.RUSAGE_SELF)\n"
        "    return np.array([time.monotonic(), mine.ru_utime + mine.ru_stime, mine.ru_nvcsw])\n"
        # span: in which it is counted
        "before = used(); time.sleep(2); seconds, busy, sleeps = used() - before\n"
        "hvd.barrier(); tell(share=busy / seconds, sleeps=sleeps / seconds)\n"
    )
    for rank in (0, 1):
        told = two_ranks.last(rank)
        # What a waking costs depends on who else is there, how many there are does not.
        assert told["sleeps"] < 40, f"wakes {told['sleeps']:.0f} times a second"
        assert told["share"] < 0.05, f"{100 * told['share']:.2f} % of a core"


def test_waiting_for_a_late_rank_does_not_burn_a_core(two_ranks: Ranks) -> None:
    two_ranks.all_end_well(
        "hvd.init(); hvd.barrier()\n"
        "if RANK == 1: time.sleep(2)\n"  # span: in which it is counted
        "since, before = time.monotonic(), time.process_time(); hvd.allreduce(np.ones(3))\n"
        "tell(share=(time.process_time() - before) / max(2, time.monotonic() - since))\n"
    )
    assert two_ranks.last(0)["share"] < 0.15, two_ranks.last(0)


def test_a_long_cycle_time_does_not_look_like_death(two_ranks: Ranks) -> None:
    two_ranks.all_end_well(
        "hvd.init()\n"
        "handle = hvd.allreduce_async(np.ones(3), op=hvd.Sum, name='x')\n"
        "time.sleep(3)\n"  # span: longer than the limit
        "assert (hvd.synchronize(handle) == 2).all()\n",
        HVDLITE_CYCLE_TIME="8000",
        HVDLITE_HEARTBEAT_SECONDS="2",
    )
