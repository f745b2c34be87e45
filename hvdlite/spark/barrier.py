"""What a task of the barrier stage does: it meets the others, starts one rank, and reports.

The rank is a process of its own. Spark uses its Python workers again for other jobs, and a
framework leaves threads, memory of a GPU and settings behind. The guardian (launch/spawn) ends the
rank if Spark kills the worker.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from hvdlite.base.mailbox import Mailbox
from hvdlite.launch import machine, output, plan, secret, task
from hvdlite.launch.console import Console
from hvdlite.launch.last_words import shown
from hvdlite.launch.spawn import local
from hvdlite.launch.spawn.events import Event, RankEnded, RankStartFailed
from hvdlite.launch.verdict import SURVIVOR_SECONDS, Verdict
from hvdlite.launch.watch import Signals, Watch
from hvdlite.rendezvous import StoreClient, StoreServer, addresses
from hvdlite.spark import listening, outcome, placement

_REACH_SECONDS = 30.0
_OVER = "spark/over"  # set by the task whose rank has failed
_DONE = "spark/done"  # below it, by rank: this task needs the store no more


@dataclass(frozen=True)
class BarrierOrder:
    """What the driver asks of every task."""

    function: bytes
    program: bytes
    environment: Mapping[str, str]
    executable: str | None = None
    interfaces: Sequence[str] = ()
    timestamps: bool = False
    grace_seconds: float = 5.0
    driver: listening.DriverAddress | None = None


@dataclass(frozen=True)
class BarrierHello:
    """What each task tells all others. The offer of partition 0 counts."""

    host: str  # equal for tasks whose ranks can share memory
    name: str
    gpus: Sequence[str] = ()
    addresses: Sequence[str] = ()
    port: int = 0
    secret: str = ""

    def encode(self) -> str:
        return json.dumps(self.__dict__)


def carry_out(order: BarrierOrder) -> Iterator[outcome.Row]:
    """Runs in a task of Spark, in the main thread of its Python worker."""
    from pyspark import BarrierTaskContext

    context = BarrierTaskContext.get()
    partition = context.partitionId()
    with contextlib.ExitStack() as stack:
        own = BarrierHello(
            machine.host_identity(os.environ), socket.gethostname(), placement.gpus(context)
        )
        if partition == 0:
            own = _open_store(order, own, context.getTaskInfos()[0].address, stack)
        hellos = [BarrierHello(**json.loads(text)) for text in context.allGather(own.encode())]
        slot = placement.place([hello.host for hello in hellos])[partition]
        first = hellos[0]
        names = ["127.0.0.1"] if own.host == first.host else first.addresses
        offered = [(name, first.port) for name in names]
        key = bytes.fromhex(first.secret)
        address, client = addresses.reach(offered, key, _REACH_SECONDS)
        stack.callback(client.close)
        here = sum(hello.host == own.host for hello in hellos)  # the ranks of this host
        shared = placement.environment(order.environment, own.gpus)
        shared |= machine.threads(shared, machine.here(shared).cores, here)
        shared |= plan.rendezvous_environment(address)
        hearing = stack.enter_context(contextlib.closing(_FailureListener(address, key)))
        report = _run(order, slot, own.name, shared, key, partition, client, hearing)
        hearing.close()
        client.set(f"{_DONE}/{slot.rank}", b"")
        if partition == 0:
            client.collect(_DONE, len(hellos))
    yield from outcome.rows(report)


def _open_store(
    order: BarrierOrder, own: BarrierHello, executor: str, stack: contextlib.ExitStack
) -> BarrierHello:
    """Opens the job's store with a new secret, and puts the function there."""
    key = secret.create()
    store = stack.enter_context(StoreServer.reached(key, everywhere=True))
    port = store.address[1]
    client = stack.enter_context(StoreClient(("127.0.0.1", port), key))
    client.set(task.PROGRAM, order.program)
    task.put_blob(client, task.FUNCTION, order.function)
    known = [] if order.interfaces else [executor.rpartition(":")[0].strip("[]")]
    names = [*known, *addresses.of_this_machine(order.interfaces)]
    return BarrierHello(
        own.host, own.name, own.gpus, list(dict.fromkeys(filter(None, names))), port, key.hex()
    )


def _run(
    order: BarrierOrder,
    slot: plan.Slot,
    host: str,
    shared: Mapping[str, str],
    key: bytes,
    partition: int,
    client: StoreClient,
    hearing: _FailureListener,
) -> outcome.RankReport:
    """Runs the rank until nothing of it is left."""
    with contextlib.ExitStack() as stack:
        console = _console(order, partition, stack)
        streams = {
            (slot.rank, name): output.Stream(slot.rank, name, sink)
            for name, sink in (("stdout", console.stdout), ("stderr", console.stderr))
        }
        signals = stack.enter_context(contextlib.closing(Signals()))
        descriptor, variables = secret.hand_over(key, shared, stack)
        command = [order.executable or sys.executable, "-m", "hvdlite.launch.task"]
        own = {slot.rank: plan.rank_environment(slot, several_hosts=False)}
        own[slot.rank]["HOROVOD_HOSTNAME"] = host
        ranks = local.start(command, {**shared, **variables}, own, descriptor, order.grace_seconds)
        stack.callback(ranks.close)
        watch = _RankWatch(slot.rank, host, ranks, streams, client, hearing)
        with contextlib.closing(watch):
            watch.loop(signals.wake, signals.caught)
    return outcome.RankReport(
        slot.rank,
        host,
        watch.ended.code,
        watch.ended.signal,
        watch.words,
        watch.ended_by_us,
        _blob(client, task.result_key(slot.rank)),
        _blob(client, task.failure_key(slot.rank)),
    )


def _blob(client: StoreClient, key: str) -> bytes | None:
    try:
        found = task.get_blob(client, key, 0)
    except TimeoutError:
        return None
    client.delete(key)
    return found


def _console(order: BarrierOrder, partition: int, stack: contextlib.ExitStack) -> Console:
    """Leads to the driver if it listens, else to the executor's log. Descriptor 1 is Spark's."""
    writers = output.Writer(2), output.Writer(2)
    client = None if order.driver is None else listening.reach(order.driver)
    if client is not None:
        stack.callback(client.close)
        listening.say_started(client, partition)
        writers = (
            listening.ToDriver(client, partition, "stdout"),
            listening.ToDriver(client, partition, "stderr"),
        )
    elif order.driver is not None:
        where = ", ".join(host for host, _ in order.driver.addresses)
        print(
            f"hvdlite: this executor does not reach the driver at {where}, so the output of its "
            "rank is here",
            file=sys.stderr,
        )
    console = Console(*writers, order.timestamps)
    stack.callback(console.close)
    stack.callback(console.flush)
    return console


class _FailureListener(Mailbox[str]):
    """Hears in a thread, over a connection of its own, that a rank of the job has failed."""

    def __init__(self, address: addresses.Address, key: bytes) -> None:
        super().__init__()
        self._client = StoreClient(address, key)
        self._closed = False
        self._thread = threading.Thread(target=self._listen, name="hvd-spark-over", daemon=True)
        self._thread.start()

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._client.close()
            self._thread.join()
            super().close()

    def _listen(self) -> None:
        try:
            self._client.get(_OVER)
        except (OSError, ValueError):  # the host of rank 0 is lost, or close() was called
            pass
        self.put("over")


class _RankWatch(Watch):
    """The loop of one task: its rank's output and end, and the end of the others."""

    def __init__(
        self,
        rank: int,
        host: str,
        ranks: local.LocalRanks,
        streams: Mapping[tuple[int, str], output.Stream],
        client: StoreClient,
        hearing: _FailureListener,
    ) -> None:
        super().__init__(
            {host: ranks}, streams, Verdict({rank: host}), lambda text: None, self._chore
        )
        self.ended = RankEnded(rank)
        self.words = ""
        self.ended_by_us = False
        self._rank, self._client, self._hearing = rank, client, hearing
        self._ends_at = float("inf")
        self.call(hearing.fileno(), self._hear)

    def happened(self, descriptor: int, host: str, event: Event) -> None:
        super().happened(descriptor, host, event)
        if isinstance(event, RankStartFailed):
            self.ended, self.words = RankEnded(self._rank, code=127), os.strerror(event.errno)
        elif isinstance(event, RankEnded):
            self.ended, self.ended_by_us = event, self.asked or bool(self.verdict.interrupted)
            self.words = shown(self.stderr[self._rank].last_words.with_place())
        else:
            return
        if self.ended.status and not self.ended_by_us:
            with contextlib.suppress(OSError):  # the host of rank 0 is lost
                self._client.set(_OVER, f"rank {self._rank}".encode())

    def _hear(self) -> None:
        self._hearing.take()
        self._ends_at = time.monotonic() + SURVIVOR_SECONDS

    def _chore(self) -> float | None:
        """The rank gets a moment to raise its own error and to clean up."""
        left = self._ends_at - time.monotonic()
        if self.asked or left == float("inf"):
            return None
        if left <= 0:
            self.ask(politely=True)
            return None
        return left
