"""What hvdlite.spark decides, without Spark."""

from __future__ import annotations

import contextlib
import os
import pickle
from collections.abc import Mapping

import pytest
from waiting import wait_until

from hvdlite.launch import delivery

pytest.importorskip("pyspark", reason='pip install ".[spark]": pyspark is not installed')

from hvdlite.spark import listening, needs, outcome, placement, runner, slots  # noqa: E402
from hvdlite.spark.outcome import RankReport  # noqa: E402


@pytest.mark.parametrize(
    ("hosts", "ranks", "local", "cross"),
    [
        ("a", [0], [0], [0]),
        ("aab", [0, 1, 2], [0, 1, 0], [0, 0, 1]),
        ("aba", [0, 2, 1], [0, 0, 1], [0, 1, 0]),
        ("abcba", [0, 2, 4, 3, 1], [0, 0, 0, 1, 1], [0, 1, 2, 1, 0]),
    ],
)
def test_ranks_of_a_host_follow_one_another_and_partition_0_is_rank_0(
    hosts: str, ranks: list[int], local: list[int], cross: list[int]
) -> None:
    found = placement.place(list(hosts))
    assert [slot.rank for slot in found] == ranks
    assert [slot.local_rank for slot in found] == local
    assert [slot.cross_rank for slot in found] == cross
    assert [slot.host for slot in found] == list(hosts)
    assert {slot.size for slot in found} == {len(hosts)}


def test_a_rank_has_the_workers_variables_but_sparks_secrets() -> None:
    worker = {"PATH": "/bin", "PYTHON_WORKER_FACTORY_SECRET": "x", "HVDLITE_RENDEZVOUS": "a:1"}
    found = placement.base_environment(worker, {"HVDLITE_LOG_LEVEL": "info"})
    assert found["PATH"] == "/bin" and found["HVDLITE_LOG_LEVEL"] == "info"
    assert "PYTHON_WORKER_FACTORY_SECRET" not in found and "HVDLITE_RENDEZVOUS" not in found


def test_the_path_for_the_rank_is_what_spark_has_added() -> None:
    path = ["", "/s/python311.zip", "/s/lib", "/s/lib/site-packages", "/data/files/a.zip", "/mine"]
    assert placement.own_path(path, ["/s/lib"]) == ["/data/files/a.zip", "/mine"]


YARN = {"spark.master": "yarn", "spark.executor.instances": "3", "spark.executor.cores": "4"}


@pytest.mark.parametrize(
    ("conf", "expected"),
    [
        ({"spark.master": "local"}, 1),
        ({"spark.master": "local[4]"}, 4),
        ({"spark.master": "local[4,2]", "spark.task.cpus": "2"}, 2),
        ({"spark.master": "local[*]"}, None),
        ({"spark.master": "local-cluster[2, 3, 1024]", "spark.task.cpus": "2"}, 2),
        ({"spark.master": "yarn"}, None),
        (YARN, 12),
        ({**YARN, "spark.dynamicAllocation.enabled": "true"}, None),
        (
            {
                **YARN,
                "spark.dynamicAllocation.enabled": "true",
                "spark.dynamicAllocation.maxExecutors": "5",
            },
            20,
        ),
    ],
)
def test_the_slots_of_a_configuration(conf: Mapping[str, str], expected: int | None) -> None:
    assert slots.most(conf.get) == expected


@pytest.mark.parametrize(
    ("wanted", "there", "at_most", "unchanged", "answer"),
    [
        (2, 2, None, 0.0, True),
        (2, 4, 2, 0.0, True),
        (3, 2, 4, 0.0, False),  # executors are on their way
        (3, 2, None, 1.0, False),
        (3, None, None, 0.0, True),  # Connect
        (3, 2, None, 99.0, "needs 3 slots at the same time, and this Spark application has 2"),
        (5, 2, 2, 0.0, "needs 5 slots at the same time, and this Spark application has 2"),
        (5, None, 2, 0.0, "needs 5 slots"),
    ],
)
def test_whether_there_are_enough_slots(
    wanted: int, there: int | None, at_most: int | None, unchanged: float, answer: bool | str
) -> None:
    if isinstance(answer, bool):
        assert slots.is_enough(wanted, there, at_most, unchanged) is answer
        return
    with pytest.raises(ValueError, match=answer):
        slots.is_enough(wanted, there, at_most, unchanged)


def _failure(error: BaseException) -> bytes:
    last_line = f"{type(error).__name__}: {error}"
    return pickle.dumps(
        delivery.RankFailure(last_line, f"Traceback\n{last_line}\n", pickle.dumps(error))
    )


def test_reports_survive_their_way_through_rows() -> None:
    large = bytes(range(256)) * (2 * outcome.CHUNK_BYTES // 256) + b"rest"
    those = [
        RankReport(0, "a", result=large),
        RankReport(1, "b", code=1, words="ValueError: x", failure=b"f", ended_by_us=True),
        RankReport(2, "b", result=b""),
    ]
    found = [row for report in reversed(those) for row in outcome.rows(report)]
    assert max(len(chunk) for _, _, chunk in found) <= outcome.CHUNK_BYTES
    assert outcome.reports(found) == those


def test_results_come_in_the_order_of_ranks() -> None:
    those = [RankReport(rank, "a", result=pickle.dumps(rank * 10)) for rank in range(3)]
    assert outcome.results(those, 3) == [0, 10, 20]


LOST = "PeerLostError: rank 1 failed: it has raised ValueError: own"


@pytest.mark.parametrize(
    ("those", "said", "cause"),
    [
        (
            [
                RankReport(0, "a", 1, words=LOST, failure=_failure(RuntimeError(LOST))),
                RankReport(1, "b", 1, words="ValueError: own", failure=_failure(ValueError("own"))),
                RankReport(2, "b", signal=15, ended_by_us=True),
            ],
            "rank 1 on b raised ValueError: own\n\nOn rank 1:\nTraceback",
            ValueError,
        ),
        (
            [
                RankReport(0, "a", 1, words=LOST, failure=_failure(RuntimeError(LOST))),
                RankReport(1, "b", signal=9),
            ],
            "rank 1 on b was killed by SIGKILL",
            None,
        ),
        (
            [RankReport(0, "a", 3, words="bye"), RankReport(1, "b", signal=15, ended_by_us=True)],
            "rank 0 on a exited with code 3: bye. All other ranks have ended, too.",
            None,
        ),
        ([RankReport(0, "a")], "rank 0 on a ended without a result", None),
        ([RankReport(0, "a", result=b"no pickle")], "the result of rank 0 on a cannot be", None),
    ],
    ids=["own error", "killed", "exit", "no result", "no pickle"],
)
def test_the_cause_is_raised(
    those: list[RankReport], said: str, cause: type[BaseException] | None
) -> None:
    with pytest.raises(RuntimeError) as raised:
        outcome.results(those, len(those))
    assert str(raised.value).startswith(said)
    if cause is not None:
        assert type(raised.value.__cause__) is cause


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "Job aborted due to stage failure: ... Most recent failure: Lost task 1.0: "
            "ExecutorLostFailure (executor 1 exited caused by one of the running tasks) Reason: "
            "Command exited with code 137\nDriver stacktrace:",
            "an executor was lost: executor 1 exited caused by one of the running tasks) Reason: "
            "Command exited with code 137",
        ),
        (
            "pyspark.errors.exceptions.captured.PythonException: An exception was thrown\n"
            "Traceback (most recent call last):\n  File \"a\", line 1\n"
            "ModuleNotFoundError: No module named 'hvdlite'\n\n\tat org.apache",
            "ModuleNotFoundError: No module named 'hvdlite'",
        ),
        ("org.apache.spark.SparkException: Python worker exited unexpectedly (crashed)",
         "Python worker exited unexpectedly (crashed"),
        ("something else\nmore", "something else"),
        ("", "Spark does not say why"),
    ],
)  # fmt: skip
def test_what_spark_says_becomes_a_sentence(text: str, said: str) -> None:
    assert outcome.why(text) == said


def test_the_drivers_knobs_travel_and_its_secrets_do_not() -> None:
    driver = {
        "HVDLITE_LOG_LEVEL": "info",
        "HOROVOD_CYCLE_TIME": "2",
        "HVDLITE_RANK": "3",
        "HVDLITE_SECRET": "00",
        "HVDLITE_SECRET_FILE": "/home/me/secret",
        "PATH": "/bin",
    }
    found = runner.environment(driver, {"MINE": "1"}, "eth0, eth1")
    assert found == {
        "HVDLITE_LOG_LEVEL": "info",
        "HOROVOD_CYCLE_TIME": "2",
        "HVDLITE_NETWORK_INTERFACES": "eth0,eth1",
        "MINE": "1",
    }


@pytest.mark.parametrize(
    ("version", "enough"), [("4.0.0", True), ("4.3.0", True), ("3.5.1", False), ("5.0", True)]
)
def test_old_pyspark_is_refused(version: str, enough: bool) -> None:
    assert needs.is_new_enough(version) is enough


def test_the_ranks_are_heard_by_a_program_with_many_open_files() -> None:
    """The descriptors of the listener are above those that select() accepts."""
    with contextlib.ExitStack() as stack:
        for _ in range(1024):
            stack.callback(os.close, os.open(os.devnull, os.O_RDONLY))
        listener = listening.Listener("", None, None)
        client = listening.reach(listener.address)
        assert client is not None
        stack.callback(client.close)
        stack.callback(listener.close)
        listening.say_started(client, 1)
        wait_until(lambda: listening.started(listener, 2) == [0])
