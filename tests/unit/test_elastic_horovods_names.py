"""Horovod's names, flags and rules of elastic training, without other ranks."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from elastic_job import Job, running
from machine import within

from hvdlite import compat
from hvdlite.elastic import ObjectState, State, loop
from hvdlite.elastic.horovod_names import (
    HostUpdateResult,
    WorkerNotificationManager,
    notification_manager,
    run_fn,
)
from hvdlite.elastic.notifications import Repeated
from hvdlite.exceptions import HorovodInternalError, HostsUpdatedInterrupt, MismatchError
from hvdlite.launch import cli, task
from hvdlite.launch.elastic.context import ElasticVerdict
from hvdlite.launch.elastic.delivery import ElasticDelivery
from hvdlite.launch.elastic.events import End, Say
from hvdlite.launch.elastic.options import ElasticOptions
from hvdlite.rendezvous.documents import Role

ROOT = Path(__file__).resolve().parents[2]


def _aliased(code: str) -> subprocess.CompletedProcess[str]:
    clean = {
        k: v for k, v in os.environ.items() if not k.startswith(("HVDLITE_", "HOROVOD_", "PYTHON"))
    }
    alias = compat.environment({"PYTHONPATH": str(ROOT)})
    return subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env=clean | alias,
        timeout=within(60),
    )


def test_the_alias_has_the_base_of_elastic_training() -> None:
    done = _aliased("""
from horovod.common.elastic import ObjectState, State, notification_manager, run_fn
from horovod.common.exceptions import HostsUpdatedInterrupt
from horovod.runner.elastic.worker import HostUpdateResult
import horovod.common, horovod.common.elastic, horovod.runner.elastic.driver as driver
import hvdlite.elastic, hvdlite.launch.elastic.host_discovery as host_discovery
assert ObjectState is hvdlite.elastic.ObjectState and State is hvdlite.elastic.State
assert HostsUpdatedInterrupt is hvdlite.elastic.HostsUpdatedInterrupt
assert horovod.common.elastic.run_fn is run_fn
driver.DISCOVER_HOSTS_FREQUENCY_SECS = 0.01
assert host_discovery.DISCOVER_HOSTS_FREQUENCY_SECS == 0.01
assert HostUpdateResult.mixed == HostUpdateResult.added | HostUpdateResult.removed == 3
""")
    assert done.returncode == 0, done.stderr


def test_a_framework_has_an_alias_as_soon_as_its_module_has_names() -> None:
    done = _aliased("""
import sys, types
for name, package in (("keras", "keras"), ("tensorflow", "tensorflow")):
    parent = sys.modules[f"hvdlite.{name}"] = types.ModuleType(f"hvdlite.{name}")
    parent.__path__ = []
    elastic = types.ModuleType(f"hvdlite.{name}.elastic")
    elastic.__all__ = ["run"]
    sys.modules[f"hvdlite.{name}.elastic"] = elastic
    exec(f"import horovod.{name}.elastic")
    assert sys.modules[f"horovod.{name}.elastic"] is elastic
""")
    assert done.returncode == 0, done.stderr


def test_what_horovods_driver_has_and_hvdlite_has_not_says_what_to_do() -> None:
    done = _aliased("import horovod.runner.elastic.registration")
    assert "--host-discovery-script" in done.stderr.splitlines()[-1]


# ---- the base of all states


class Own(State):
    """A state that keeps what it does."""

    def __init__(self) -> None:
        super().__init__(lambda value, root_rank=0: value, lambda: 0)
        self.done: list[str] = []

    def save(self) -> None:
        self.done.append("save")

    def restore(self) -> None:
        self.done.append("restore")

    def sync(self) -> None:
        self.done.append("sync")

    def reset(self) -> None:
        self.done.append("reset")


def test_commit_saves_before_it_looks_for_news() -> None:
    state = Own()
    state.on_hosts_updated(1, HostUpdateResult.added)
    with pytest.raises(HostsUpdatedInterrupt):
        state.commit()
    assert state.done == ["save"]


@pytest.mark.parametrize(
    ("updates", "skip_sync"),
    [
        ([HostUpdateResult.removed], True),
        ([HostUpdateResult.added], False),
        ([HostUpdateResult.removed, HostUpdateResult.added], False),
        ([HostUpdateResult.mixed], False),
        ([1], True),
    ],
)
def test_an_update_that_only_removes_hosts_needs_no_sync(
    updates: list[int], skip_sync: bool
) -> None:
    state = Own()
    for timestamp, update in enumerate(updates, 1):
        state.on_hosts_updated(timestamp, update)
    with pytest.raises(HostsUpdatedInterrupt) as raised:
        state.check_host_updates()
    assert raised.value.skip_sync is skip_sync
    assert state._last_updated_timestamp == len(updates)
    state.check_host_updates()  # one interrupt for all of them


def test_an_older_update_counts_again_once_a_program_has_reset_the_timestamp() -> None:
    state = Own()
    state._last_updated_timestamp = 7
    state.on_hosts_updated(7, HostUpdateResult.added)
    state.check_host_updates()
    state._last_updated_timestamp = 0
    state.on_hosts_updated(7, HostUpdateResult.added)
    with pytest.raises(HostsUpdatedInterrupt):
        state.check_host_updates()


def test_a_listener_hears_of_hosts_until_it_is_removed() -> None:
    class Listener:
        heard: list[tuple[int, int]] = []

        def on_hosts_updated(self, timestamp: int, update_res: int) -> None:
            self.heard.append((timestamp, update_res))

    listener, manager = Listener(), WorkerNotificationManager()
    manager.init()
    manager.register_listener(listener)
    manager.tell(removed=True, added=False)
    manager.tell(removed=True, added=True)
    manager.remove_listener(listener)
    manager.tell(removed=False, added=True)
    assert [res for _, res in listener.heard] == [HostUpdateResult.removed, HostUpdateResult.mixed]


def test_a_message_that_repeats_news_is_in_the_queue_and_interrupts_nothing() -> None:
    state = ObjectState(lambda value: value, lambda: 0, epoch=0)
    state.on_hosts_updated(Repeated(10), HostUpdateResult.added)
    assert not state._host_messages.empty()
    state.commit()
    assert state._host_messages.empty()


# ---- run_fn


def test_run_fn_restores_after_a_failure_and_calls_the_reset_of_the_program() -> None:
    state, calls = Own(), iter([HorovodInternalError("lost"), None])
    state.register_reset_callbacks([lambda: state.done.append("callback")])

    def train(state: Own, more: int) -> int:
        state.done.append("train")
        error = next(calls)
        if error is not None:
            raise error
        return more

    assert run_fn(train, lambda: state.done.append("own reset"))(state, more=3) == 3
    assert state.done == [
        "sync", "train", "restore", "own reset", "reset", "callback", "sync", "train"
    ]  # fmt: skip


@pytest.mark.parametrize("skip_sync", [False, True])
def test_run_fn_synchronises_after_an_interrupt_unless_it_says_skip_sync(skip_sync: bool) -> None:
    state = Own()

    def train(state: Own) -> None:
        state.done.append("train")
        if state.done.count("train") == 1:
            raise HostsUpdatedInterrupt(skip_sync)

    run_fn(train, lambda: None)(state)
    again = [] if skip_sync else ["sync"]
    assert state.done == ["sync", "train", "reset", *again, "train"]


def test_a_failure_of_sync_is_a_failure_of_the_job() -> None:
    failures = [HorovodInternalError("lost")]

    class Fails(Own):
        def sync(self) -> None:
            super().sync()
            if failures:
                raise failures.pop()

    state = Fails()
    run_fn(lambda state: None, lambda: None)(state)
    assert state.done == ["sync", "restore", "reset", "sync"]


def test_run_fn_does_not_retry_what_the_program_has_to_mend() -> None:
    def train(state: Own) -> None:
        raise MismatchError("shapes differ")

    with pytest.raises(MismatchError):
        run_fn(train, lambda: None)(Own())


def test_the_state_is_a_listener_while_the_function_runs() -> None:
    state = Own()

    def train(state: Own) -> bool:
        notification_manager.tell(removed=False, added=True)
        return not state._host_messages.empty()

    assert run_fn(train, lambda: None)(state)
    notification_manager.tell(removed=False, added=True)
    assert state._host_messages.qsize() == 1


# ---- horovodrun's flags


def _options(*words: str, environ: dict[str, str] | None = None) -> ElasticOptions:
    arguments = cli.read_arguments([*words, "python", "train.py"])
    found = cli.understand(arguments, environ or {}, lambda path: "").elastic
    assert found is not None
    return found


HOSTS = ("-H", "localhost:1,127.0.0.1:1")


@pytest.mark.parametrize(
    ("words", "unit"),
    [
        (("--horovodrun", "-np", "2", "--min-np", "1", *HOSTS), "host"),
        (("--horovodrun", "-np", "2", "--host-discovery-script", "s"), "host"),
        (("--horovodrun", "-np", "2", "--min-np", "1", *HOSTS, "--failure-unit", "slot"), "slot"),
        (("--horovodrun", "-np", "2", "--min-np", "1"), "slot"),  # no other host could go on
        (("-np", "2", "--min-np", "1", *HOSTS), "slot"),
    ],
)
def test_horovodrun_gives_up_a_host_with_its_first_failure(
    words: tuple[str, ...], unit: str
) -> None:
    assert _options(*words).policy.failure_unit == unit


def test_horovodrun_without_elastic_flags_says_nothing_of_them() -> None:
    arguments = cli.read_arguments(["--horovodrun", "-np", "2", "python", "train.py"])
    assert cli.understand(arguments, {}, lambda path: "").warnings == []


def test_the_timeout_has_horovods_variable() -> None:
    words = ("-np", "2", "--min-np", "1")
    variable = {"HOROVOD_ELASTIC_TIMEOUT": "40"}
    assert _options(*words, environ=variable).policy.elastic_timeout == 40
    flag = (*words, "--elastic-timeout", "50")
    assert _options(*flag, environ=variable).policy.elastic_timeout == 50
    with pytest.raises(ValueError, match="HOROVOD_ELASTIC_TIMEOUT: 'soon'"):
        _options(*words, environ={"HOROVOD_ELASTIC_TIMEOUT": "soon"})


OLD = """--num-proc 3 --min-num-proc 2 --max-num-proc 4 --slots-per-host 2 --start-timeout 20
    --elastic-timeout 30 --reset-limit 5 --blacklist-cooldown-range 10 20 --network-interface lo
    --disable-cache --verbose --log-level INFO --gloo -prefix-timestamp"""


def test_old_spellings_of_horovodrun_mean_the_same() -> None:
    options = _options(*OLD.split(), "--host-discovery-script", "./hosts.sh")
    policy: Any = options.policy
    assert (policy.processes, policy.least, policy.most) == (3, 2, 4)
    assert (policy.elastic_timeout, policy.reset_limit) == (30, 5)
    assert policy.cooldown_range == (10, 20)
    assert (options.script, options.slots_per_host) == ("./hosts.sh", 2)


def test_parse_args_has_horovods_names_of_the_elastic_flags() -> None:
    words = [*OLD.split(), "--host-discovery-script", "./hosts.sh", "python", "train.py"]
    done = _aliased(f"""
import sys
from horovod.runner import launch
sys.argv = ["horovodrun", *{words!r}]
args = launch.parse_args()
assert (args.num_proc, args.min_num_proc, args.max_num_proc, args.slots) == (3, 2, 4, 2)
assert (args.elastic_timeout, args.reset_limit, args.start_timeout) == (30, 5, 20)
assert tuple(args.cooldown_range) == (10, 20) and args.nics == {{"lo"}}
assert args.host_discovery_script == "./hosts.sh" and args.use_gloo and not args.use_mpi
assert args.command == ["python", "train.py"]
sys.argv = ["horovodrun", "-np", "2", "true"]
args = launch.parse_args()
assert args.min_num_proc is args.max_num_proc is args.host_discovery_script is None
assert args.slots is args.reset_limit is args.elastic_timeout is args.cooldown_range is None
""")
    assert done.returncode == 0, done.stderr


# ---- what reset callbacks change


@pytest.mark.parametrize("steps", [False, True])
@pytest.mark.parametrize("role", [Role.KEEP, Role.RESTORE])
def test_what_a_reset_callback_changes_stays(role: Role, steps: bool) -> None:
    state = ObjectState(lambda value: value, lambda: 0, rate=0.4, batch=0)
    state.register_reset_callbacks([lambda: setattr(state, "rate", state.rate / 2)])
    state._marks.steps = steps
    state.batch = 1
    state.commit()
    state._take_role(role, None, 1, changed=True)
    assert (state.rate, state.batch) == (0.2, 1)
    state._take_role(Role.KEEP, None, 1)
    assert state.rate == 0.2


# ---- sentences


def test_init_of_an_elastic_job_takes_no_numbers() -> None:
    from hvdlite.job.arrival import _arrive_as_member
    from hvdlite.launch.environment import InitArguments

    for comm, asked in (([0], InitArguments()), (None, InitArguments(rank=0, size=1))):
        with pytest.raises(ValueError, match="is not allowed in an elastic job"):
            _arrive_as_member(comm, asked)


def test_run_says_once_that_a_job_of_several_ranks_is_not_elastic(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for name, value in (("is_initialized", True), ("size", 2), ("rank", 0)):
        monkeypatch.setattr(loop.basics, name, lambda value=value: value)
    loop.run(lambda state: None)(Own())
    assert [record.message.partition(":")[0] for record in caplog.records] == [
        "this job is not elastic, and ends with its first rank that fails"
    ]


class FakeStore:
    """`results`: by member."""

    def __init__(self, results: dict[int, object]) -> None:
        self._values = {}
        for member, result in results.items():
            self._values[task.result_key(member)] = b"1"
            self._values[f"{task.result_key(member)}/0"] = pickle.dumps(result)

    def get(self, key: str, timeout: float | None = None) -> bytes:
        if key not in self._values:
            raise TimeoutError(key)
        return self._values[key]

    def delete(self, key: str) -> None:
        pass


def _results(ranks: tuple[int, ...], results: dict[int, object], least: int) -> list[Any]:
    verdict = ElasticVerdict(dict.fromkeys(range(1, 5), "here"), end=End(0), ranks=ranks)
    delivery = ElasticDelivery(b"", verdict, least, ["python"])
    store: Any = FakeStore(results)
    return delivery.collect(store)


def test_results_are_those_of_the_first_ranks_of_the_last_generation() -> None:
    all_four = {1: "a", 2: "b", 3: "c", 4: "d"}
    assert _results((3, 1, 4), all_four, 2) == ["c", "a"]
    assert _results((3, 4), {1: "a", 4: "d"}, 2) == ["d", "a"]  # 3 has died, 1 was done before
    assert _results((), all_four, 3) == ["a", "b", "c"]  # a function without init()
    with pytest.raises(RuntimeError, match="has returned on 1 ranks, and 2 results are wanted"):
        _results((1, 2), {2: "b"}, 2)


def test_a_member_that_a_generation_waits_for_is_named() -> None:
    job = running("a:2").report(1)
    assert [said.text for said in job.hear(after=61.0).all(Say)] == [
        "the next generation waits for member 2 on a."
    ]


def test_those_that_the_first_generation_waits_for_are_named_host_by_host() -> None:
    job = Job("a:3,b:2").meet(2)
    assert [said.text for said in job.hear(after=61.0).all(Say)] == [
        "the job waits for hvd.init() of members 1,3 on a, members 4-5 on b."
    ]
