"""Process sets that their members alone add: whatever becomes of the ranks meanwhile."""

from __future__ import annotations

import pytest
from bare_ranks import Ranks
from elastic_faults import PYTHON, QUICKLY, generations, program
from launched import Job
from machine import within

AT_ONCE = {
    "HVDLITE_STALL_CHECK_TIME_SECONDS": "0.5",
    "HVDLITE_STALL_SHUTDOWN_TIME_SECONDS": f"{within(1):g}",
}


@pytest.mark.parametrize("victim", [1, 2], ids=["a rank outside", "a member"])
def test_a_death_ends_the_wait_for_a_member_and_is_named(three_ranks: Ranks, victim: int) -> None:
    three_ranks.start(
        "hvd.init(); hvd.barrier()\n"
        f"if RANK == {victim}:\n"
        "    wait_flag('inside.0'); tell(dying=True); os.kill(os.getpid(), signal.SIGKILL)\n"
        "if RANK == 0: flag_when_inside()\n"
        "until_it_fails(lambda: hvd.add_process_set([0, 2], name='eval') if RANK == 0\n"
        "               else hvd.allreduce(np.ones(3)))\n"
    )
    three_ranks.wait()
    three_ranks.all_hear_of(victim)


def test_a_member_that_dies_is_named_to_its_set_and_to_the_others(three_ranks: Ranks) -> None:
    three_ranks.start(
        "hvd.init()\n"
        "if RANK: pair = hvd.add_process_set([1, 2], name='pair')\n"
        "if RANK == 2:\n"
        "    hvd.allreduce(np.ones(3), process_set=pair); wait_flag('inside.1')\n"
        "    if os.fork() == 0: outlive('seen')\n"
        "    tell(dying=True); os.kill(os.getpid(), signal.SIGKILL)\n"
        "if RANK == 1: hvd.allreduce(np.ones(3), process_set=pair); flag_when_inside()\n"
        "until_it_fails(lambda: hvd.allreduce(np.ones(3), process_set=pair) if RANK\n"
        "               else hvd.barrier())\n"
    )
    three_ranks.wait()
    three_ranks.all_hear_of(2)
    (three_ranks.directory / "seen").touch()


def test_ranks_outside_may_be_in_code_that_holds_the_interpreter(three_ranks: Ranks) -> None:
    three_ranks.all_end_well(
        "import ctypes\n"
        "hvd.init()\n"
        "if RANK == 0:\n"  # the root of the job
        "    os.mkfifo('held.new'); held = os.open('held.new', os.O_RDWR)\n"
        "    os.rename('held.new', 'held')\n"
        "    assert ctypes.PyDLL(None).read(held, ctypes.create_string_buffer(1), 1) == 1\n"
        "else:\n"
        "    wait_flag('held')\n"
        "    for name in 'ab':\n"
        "        pair = hvd.add_process_set([1, 2], name=name)\n"
        "        assert hvd.allreduce(1, op=hvd.Sum, process_set=pair) == 2\n"
        "        assert hvd.remove_process_set(pair)\n"
        "    if RANK == 1: os.write(os.open('held', os.O_WRONLY), b'.')\n"
        "hvd.barrier()\n"
    )


def test_a_member_that_does_not_come_is_named_and_no_rank_outside(three_ranks: Ranks) -> None:
    three_ranks.start(
        "hvd.init(); hvd.barrier()\n"
        "if RANK == 0:\n"
        "    until_it_fails(lambda: hvd.add_process_set([0, 2], name='eval')); flag('over')\n"
        "else:\n"
        "    wait_flag('over')\n",
        **AT_ONCE,
    )
    three_ranks.end_well()
    told = three_ranks.last(0)
    assert told["error"] == "ShutDownError"
    assert "rank 2 has not asked for add_named_process_set 'eval [0, 2]'" in told["text"]
    assert "rank 1" not in told["text"]
    assert "\n2!: [add_named_process_set.eval [0, 2]]" in three_ranks.outputs()


def test_members_that_add_sets_in_crossing_order_are_told(three_ranks: Ranks) -> None:
    three_ranks.start(
        "hvd.init(); hvd.barrier()\n"
        "def both():\n"
        "    for name in ('a', 'b') if RANK == 0 else ('b', 'a'):\n"
        "        hvd.add_process_set([0, 1], name=name)\n"
        "if RANK == 2: wait_flag('over.0'); wait_flag('over.1')\n"
        "else: until_it_fails(both); flag(f'over.{RANK}')\n",
        **AT_ONCE,
    )
    three_ranks.end_well()
    for rank in (0, 1):
        text = three_ranks.last(rank)["text"]
        assert "add_named_process_set 'a [0, 1]'" in text
        assert "add_named_process_set 'b [0, 1]' instead" in text or "'a [0, 1]' instead" in text
        assert "in another order" in text


def test_shutdown_ends_the_wait_for_a_member(three_ranks: Ranks) -> None:
    three_ranks.start(
        "hvd.init(); hvd.barrier()\n"
        "if RANK == 1:\n"
        "    add = lambda: hvd.add_process_set([0, 1], name='eval')\n"
        "    waiting = threading.Thread(target=lambda: until_it_fails(add)); waiting.start()\n"
        "    wait_until_inside(); hvd.shutdown(); waiting.join(); flag('over')\n"
        "wait_flag('over')\n"
    )
    three_ranks.end_well()
    assert three_ranks.last(1)["error"] == "ShutDownError"


# Sets end with the generation. Member 2 dies while the others wait for it in a set of all.
NAMED = """
sets = {}
def happens(step):
    generation = hvd.elastic.generation()
    if generation not in sets:
        assert all(old is None or old.process_set_id is None for old in sets.values())
        ends = sorted({0, hvd.size() - 1})
        sets[generation] = None
        if hvd.rank() in ends:
            sets[generation] = hvd.add_process_set(ends, name="ends")
    if sets[generation] is not None:
        total = hvd.allreduce(1, op=hvd.Sum, name="ends", process_set=sets[generation])
        assert total == sets[generation].size()
    if generation == 1 and step == 5:
        if MEMBER == 2: die()
        hvd.add_process_set(range(hvd.size()), name="all")
"""


def test_named_sets_end_with_a_generation_and_are_added_again(job: Job) -> None:
    script = program(job, NAMED, done="hvd.size() == 3 and hvd.elastic.generation() > 1")
    job.end_well("-np", "3", "--min-np", "1", *QUICKLY, PYTHON, script)
    assert generations(job, 1)[0] == generations(job, 3)[0] == (1, 3)
    assert generations(job, 1)[-1][1] == 3
    assert job.pids() == []


# A newcomer warms up alone: it has no rank yet.
EARLY = """
def happens(step):
    if (MEMBER, step) == (2, 5): die()
"""


def test_a_newcomer_is_told_to_add_a_named_set_under_run(job: Job) -> None:
    prepared = (
        "try: hvd.remove_process_set(hvd.add_process_set([hvd.rank()], name='early'))\n"
        "except RuntimeError as error: print('refused:', error, flush=True)"
    )
    script = program(job, EARLY, prepared, "hvd.size() == 3 and hvd.elastic.generation() > 1")
    done = job.end_well("-np", "3", "--min-np", "1", *QUICKLY, PYTHON, script)
    (refused,) = [line for line in done.stdout.decode().splitlines() if "refused:" in line]
    assert "process set 'early'" in refused and "under @hvd.elastic.run" in refused
