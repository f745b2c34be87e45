"""A job on Ray whose ranks stay the same: one failure ends it."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import ray
from ray.exceptions import GetTimeoutError, RayActorError, RayError, RayTaskError
from ray.util.queue import Queue

from hvdlite.exceptions import PeerLostError, ShutDownError
from hvdlite.launch.last_words import in_one_line
from hvdlite.ray import bundles, rank_order, strategy
from hvdlite.ray.bundles import Need
from hvdlite.ray.cause import SETTLE_SECONDS, CauseFinder, FailureKind
from hvdlite.ray.coordinator import Coordinator
from hvdlite.ray.rank_order import ActorIdentity
from hvdlite.ray.ray_logger import Callback, pass_on
from hvdlite.ray.settings import MiniSettings
from hvdlite.ray.strategy import Placement
from hvdlite.ray.worker import BaseHorovodWorker

_LEAVE_SECONDS = 3.0
_GLANCE_SECONDS = 0.1  # at the values for callbacks
_NOT_STARTED = "call start() first"


class RankDied(RayActorError):  # type: ignore[misc]
    """The actor of a rank has died."""

    def __init__(self, text: str = "") -> None:
        super().__init__()
        self.args = (text,)

    def __str__(self) -> str:
        return str(self.args[0])


class StaticAdapter:
    """The actors of RayExecutor, by rank."""

    def __init__(
        self,
        settings: MiniSettings,
        num_workers: int | None,
        num_hosts: int | None,
        num_workers_per_host: int,
        need: Need,
        use_current_placement_group: bool = True,
    ) -> None:
        self.settings = settings
        self.workers: list[Any] = []
        self.coordinator = Coordinator(settings)
        self._layout = bundles.layout(num_workers, num_hosts, num_workers_per_host, need)
        self._need = need
        self._use_current = use_current_placement_group
        self._placement: Placement | None = None
        self._found: list[ActorIdentity] = []
        self._remote: list[Any] = []  # of run_remote(), which this class has not looked at
        self._ended = _NOT_STARTED  # why there are no actors

    def start(
        self,
        executable_cls: type | None = None,
        executable_args: Sequence[Any] | None = None,
        executable_kwargs: Mapping[str, Any] | None = None,
        extra_env_vars: Mapping[str, Any] | None = None,
    ) -> None:
        """Places the actors, gives them their ranks, and makes their executables."""
        if self.workers:
            raise RuntimeError("the ranks run already: call shutdown() before start().")
        deadline = time.monotonic() + self.settings.placement_group_timeout_s
        try:
            self._create(deadline)
            self._all("update_env_vars", extra_env_vars or {}, deadline=deadline)
            self._join_job()
            self._gather("start_executable", executable_cls, executable_args, executable_kwargs)
        except BaseException:
            self._end("start() has failed; call it again")
            raise

    def execute(
        self, fn: Callable[[Any], Any], callbacks: Sequence[Callback] | None = None
    ) -> list[Any]:
        """Returns the results of all ranks, or raises the failure that was the cause."""
        self._check()
        if not callbacks:
            return self._gather("execute", fn)
        queue = Queue(actor_options={"num_cpus": 0})
        try:
            self._all("set_queue", queue)
            found = self._gather("execute", fn, glance=lambda: pass_on(queue, callbacks))
            pass_on(queue, callbacks)
            self._all("set_queue", None)
            return found
        finally:
            queue.shutdown(force=True)

    def execute_remote(self, fn: Callable[[Any], Any]) -> list[Any]:
        self._check()
        self._remote = [worker.execute.remote(fn) for worker in self.workers]
        return self._remote

    def execute_single(self, fn: Callable[[Any], Any]) -> Any:
        self._check()
        return self._gather("execute", fn, ranks=1)[0]

    def shutdown(self) -> None:
        """Ends all actors, and gives their resources back. May be called twice."""
        if self.workers and ray.is_initialized():
            with contextlib.suppress(RayError):
                self._leave()
            self._end(_NOT_STARTED)

    # Starting.

    def _create(self, deadline: float) -> None:
        timeout_s = self.settings.placement_group_timeout_s
        self._placement = strategy.place(self._layout, timeout_s, self._use_current)
        size = self._layout.ranks
        remote = ray.remote(num_cpus=self._need.cpus, num_gpus=self._need.gpus, max_restarts=0)
        kind = remote(BaseHorovodWorker)
        self.workers = [
            kind.options(scheduling_strategy=self._placement.strategy(n)).remote(n, size)
            for n in range(size)
        ]
        found: list[ActorIdentity] = self._all("find", deadline=deadline)
        order = rank_order.order(found)
        self.workers = [self.workers[n] for n in order]
        self._found = [found[n] for n in order]
        self.coordinator = Coordinator(self.settings)
        for rank, each in enumerate(self._found):
            self.coordinator.found(rank, each)

    def _join_job(self) -> None:
        """Makes a job of the actors: the next `hvd.init()` joins it."""
        shared = self.coordinator.open()
        own = self.coordinator.finalize_registration()
        store = self.coordinator.store
        assert store is not None
        told = [
            worker.join_job.remote(rank, {**own[rank], **shared}, store.key)
            for rank, worker in enumerate(self.workers)
        ]
        self._wait(told, self.settings.placement_group_timeout_s)

    def _check(self) -> None:
        if not self.workers:
            raise RuntimeError(f"no rank runs: {self._ended}.")
        if self._remote and _has_failed(self._remote):
            self._renew()
        self._remote = []

    # Running.

    def _gather(
        self,
        method: str,
        *args: Any,
        ranks: int | None = None,
        glance: Callable[[], None] | None = None,
    ) -> list[Any]:
        """Calls the method of all actors, or of the first `ranks`. A failure is raised when the
        others have ended, too."""
        refs = [getattr(worker, method).remote(*args) for worker in self.workers[:ranks]]
        try:
            found = collect(refs, self._tell_waiting_ranks, glance)
        except BaseException:  # Ctrl-C, or a callback
            self._end("the run before was interrupted; call start() again")
            raise
        if found.cause is None:
            return [found.results[rank] for rank in range(len(refs))]
        error = self._named(found.cause, found.errors[found.cause])
        self._recover(found)
        raise error

    def _tell_waiting_ranks(self, rank: int, error: Exception) -> None:
        """Ranks that wait in `hvd.init()` hear of it by the store, others by the core."""
        store = self.coordinator.store
        if store is not None:
            why = "its actor has died" if kind_of(error) is FailureKind.DEATH else _cause(error)
            store.call_off(f"rank {rank} failed: {why}")

    def _named(self, rank: int, error: Exception) -> Exception:
        if kind_of(error) is not FailureKind.DEATH:
            return error
        died = RankDied(f"rank {rank} on {self._found[rank].name} died: {error}")
        died.__cause__ = error
        return died

    def _recover(self, found: Collected) -> None:
        """After a failure: the actors make a new job, unless one of them is lost."""
        lost = sorted({*found.gone(), *found.running})
        if lost:
            ranks = ", ".join(map(str, lost))
            self._end(f"rank {ranks} was lost in the run before; call start() again")
        else:
            self._renew()

    def _renew(self) -> None:
        try:
            self._leave()
            self._join_job()
        except (RayError, TimeoutError) as error:
            why = in_one_line(error)
            self._end(f"the ranks have not left their last job ({why}); call start() again")

    def _leave(self) -> None:
        """Raises RayError if an actor does not end its part in the job in time."""
        ray.get([worker.leave.remote() for worker in self.workers], timeout=_LEAVE_SECONDS)

    def _end(self, why: str) -> None:
        """Kills the actors. `why`: what later calls say."""
        for worker in self.workers:
            ray.kill(worker)
        if self._placement is not None:
            self._placement.remove()
        self.coordinator.close()
        self.workers, self._placement, self._remote = [], None, []
        self._ended = why

    def _all(self, method: str, *args: Any, deadline: float | None = None) -> list[Any]:
        """Calls a method of hvdlite's on all actors."""
        seconds = self.settings.placement_group_timeout_s
        if deadline is not None:
            seconds = max(0.0, deadline - time.monotonic())
        return self._wait([getattr(w, method).remote(*args) for w in self.workers], seconds)

    def _wait(self, refs: list[Any], seconds: float) -> list[Any]:
        try:
            return list(ray.get(refs, timeout=seconds))
        except GetTimeoutError:
            late = ray.wait(refs, num_returns=len(refs), timeout=0)[1]
            raise TimeoutError(
                f"{len(late)} of the {len(refs)} actors have not answered within "
                f"{self.settings.placement_group_timeout_s:g} s (placement_group_timeout_s)."
            ) from None
        except RayActorError as error:
            raise RankDied(f"an actor died before the job began: {error}") from error


def _cause(error: Exception) -> str:
    return in_one_line(getattr(error, "cause", error))


def _has_failed(refs: Sequence[Any]) -> bool:
    done, _ = ray.wait(list(refs), num_returns=len(refs), timeout=0)
    for ref in done:
        try:
            ray.get(ref)
        except RayError:
            return True
    return False


# What the ranks return or raise. `cause` decides how long it is waited for.


@dataclass
class Collected:
    """By rank. `running`: ranks that have not ended in time. `cause`: the rank that has failed."""

    results: dict[int, Any] = field(default_factory=dict)
    errors: dict[int, Exception] = field(default_factory=dict)
    running: list[int] = field(default_factory=list)
    cause: int | None = None

    def gone(self) -> list[int]:
        """Returns the ranks whose actors are dead."""
        return [rank for rank, error in self.errors.items() if kind_of(error) is FailureKind.DEATH]


def collect(
    refs: Sequence[Any],
    on_cause: Callable[[int, Exception], None],
    glance: Callable[[], None] | None = None,
) -> Collected:
    """Returns when all ranks have ended, or had time to after a failure.

    `on_cause` is called once, when the cause of a failure is known. `glance` is called often.
    """
    running = {ref: rank for rank, ref in enumerate(refs)}
    failures, found = CauseFinder(), Collected()
    while running:
        left = failures.left(running.values(), time.monotonic())
        if left == 0.0:
            break
        _take(running, _pause(left, glance is not None, found.cause), failures, found)
        if found.cause is None:
            found.cause = failures.cause(time.monotonic())
            if found.cause is not None:
                on_cause(found.cause, found.errors[found.cause])
        if glance is not None:
            glance()
    found.running = sorted(running.values())
    if found.cause is None and found.errors:
        found.cause = failures.first()
    return found


def kind_of(error: Exception) -> FailureKind:
    if not isinstance(error, RayTaskError):
        return FailureKind.DEATH
    if isinstance(error.cause, (PeerLostError, ShutDownError)):
        return FailureKind.CONSEQUENCE
    # An actor whose constructor has raised is dead.
    return FailureKind.DEATH if isinstance(error.cause, RayActorError) else FailureKind.OWN


def _take(
    running: dict[Any, int], pause: float | None, failures: CauseFinder, found: Collected
) -> None:
    done, _ = ray.wait(list(running), num_returns=1, timeout=pause)
    for ref in done:
        rank = running.pop(ref)
        try:
            found.results[rank] = ray.get(ref)
        except Exception as error:
            found.errors[rank] = error
            failures.note(rank, kind_of(error), time.monotonic())


def _pause(left: float | None, glances: bool, cause: int | None) -> float | None:
    reasons = [
        left,
        _GLANCE_SECONDS if glances else None,
        SETTLE_SECONDS if left is not None and cause is None else None,
    ]
    return min((seconds for seconds in reasons if seconds is not None), default=None)
