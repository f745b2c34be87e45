"""The agent: starts the ranks of another host for the launcher, and reports what happens to them.

    launcher ──► ssh ─ ─ ─ network ─ ─ ─ sshd ──► agent ──► guardian ──► ranks

It runs as `python -m hvdlite.launch.agent`. It gets the job over its standard input, including the
secret: other users could see an argument or a variable. It finds out under which address the store
can be reached from here. Then it passes on what ranks print and what happens to them
(`spawn/agent_protocol`). In an elastic job it starts and ends ranks one by one as it is told, and
SIGTERM is a notice that its ranks are to leave.

The agent ends with the channel. When the launcher, ssh, sshd or the network dies, the agent's input
ends, or its connection with the store does. The kernel of that connection asks the other side for
signs of life, so it notices a pulled cable, too. The agent then kills the ranks. When the agent
itself is killed, the guardian kills them.
"""

from __future__ import annotations

import contextlib
import os
import select
import selectors
import signal
import socket
import sys
import time
from collections import deque
from collections.abc import Mapping
from functools import partial

from hvdlite.launch import machine, output, plan, secret
from hvdlite.launch.spawn import agent_protocol, events, guardian, local
from hvdlite.launch.spawn.agent_protocol import AgentOrder, EndOne, StartOne
from hvdlite.launch.spawn.elastic_ranks import ElasticRanks
from hvdlite.launch.spawn.silent_hosts import Patience, socket_options
from hvdlite.rendezvous import addresses
from hvdlite.rendezvous.addresses import join_address

# If more than this waits for the launcher, the ranks wait as well.
_BACKLOG_BYTES = 4 << 20
_READ_BYTES = 1 << 16
# How long the channel may accept nothing when all ranks are gone and their last output is on its
# way.
_FAREWELL_SECONDS = 5.0


def main() -> int:
    # Neither a terminal nor a login manager decides when the job ends.
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN)
    os.write(1, agent_protocol.MARK)
    job = guardian.read_job()
    if job is None:
        return 1
    try:
        return _run(AgentOrder.decode(job))
    except (OSError, ValueError) as error:
        why = str(error).encode()[: agent_protocol.MOST_BYTES]
        os.write(1, agent_protocol.encode(agent_protocol.REFUSED, why))
        return 1


def _run(order: AgentOrder) -> int:
    expected = order.slots or len(order.ranks)
    processors = machine.shares_here(order.bind, order.ranks.keys())
    key = bytes.fromhex(order.secret)
    # The launcher's address as seen from here, unless the user has chosen interfaces.
    seen = [] if order.addresses_chosen else os.environ.get("SSH_CONNECTION", "").split()[:1]
    offered = [(host, order.port) for host in dict.fromkeys([*seen, *order.addresses])]
    try:
        address, store = addresses.reach(offered, key, order.patience)
    except ConnectionError as error:
        raise ConnectionError(
            f"{error} (the agent tries for half of --start-timeout, 10 s at most)"
        ) from error
    # The connection ends when the other machine's kernel has been silent for longer.
    for level, option, value in socket_options(order.silence_seconds):
        store.socket.setsockopt(level, option, value)
    os.write(1, agent_protocol.encode(agent_protocol.READY, join_address(*address).encode()))
    if os.read(0, 1) != agent_protocol.START:
        return 1
    try:
        os.chdir(order.directory)
    except OSError as error:
        print(
            f"cannot go to the launcher's working directory: {error}; ranks start in {os.getcwd()}",
            file=sys.stderr,
        )
    with contextlib.ExitStack() as stack:
        descriptor, proof = secret.hand_over(key, order.environment, stack)
        shared = {**os.environ, **order.environment, **plan.rendezvous_environment(address)}
        shared |= proof | machine.threads(shared, machine.here(shared).cores, expected)
        if order.torch_port:
            shared |= plan.torch_rendezvous(order.torch_host or address[0], order.torch_port)

        def start(own: Mapping[int, Mapping[str, str]]) -> local.LocalRanks:
            return local.start(
                order.command, shared, own, descriptor, order.grace_seconds, processors=processors
            )

        ranks: local.LocalRanks | ElasticRanks = (
            ElasticRanks(lambda rank, own: start({rank: own}))
            if order.slots
            else start(order.ranks)
        )
        stack.callback(ranks.close)
        _Relay(ranks, store.socket, join_address(*address)).run()
    return 0


class _Relay:
    """Connects the ranks here with the launcher, until all ranks are gone."""

    def __init__(
        self, ranks: local.LocalRanks | ElasticRanks, store: socket.socket, where: str
    ) -> None:
        self.ranks = ranks
        self.elastic = ranks if isinstance(ranks, ElasticRanks) else None
        self.commands = agent_protocol.Commands()
        self.store = store
        self.where = where  # the address of the store
        self.patience = Patience()
        self.pipes = {fd: (rank, kind) for rank, p in ranks.pipes.items() for fd, kind in _kinds(p)}
        self.out: deque[bytes] = deque()
        self.waiting = 0  # bytes in `out`
        self.gone = False
        self.leaving = False  # the launcher sends nothing any more
        self.deaf = False  # the launcher reads nothing any more
        self.selector = selectors.DefaultSelector()
        self.reading = False

    def run(self) -> None:
        os.set_blocking(1, False)
        for source in (0, self.store, self.ranks):
            self.selector.register(source, selectors.EVENT_READ)
        notice = -1 if self.elastic is None else _notice_of_sigterm()
        if notice >= 0:
            self.selector.register(notice, selectors.EVENT_READ)
        self._set_reading(True)
        while not self.gone:
            ready = {key.fd for key, _ in self.selector.select(self._pause())}
            for descriptor in ready & self.pipes.keys():
                self._read(descriptor)
            if self.ranks.fileno() in ready:
                self.patience.heard(time.monotonic())
                for event in self.ranks.events():
                    self._happened(event)
            if 0 in ready and not self.leaving:
                self._obey()
            if self.store.fileno() in ready and not self.leaving:
                self._lost_store()  # the store never speaks first
            if notice in ready:
                os.read(notice, _READ_BYTES)
                self._happened(events.HostLeaving())
            if 1 in ready:
                self._write()
            if not self.gone and self.patience.left(time.monotonic()) == 0:
                for event in self.ranks.abandon():
                    self._happened(event)
            if self.elastic is not None:
                self.elastic.give_up(time.monotonic())
            self._set_reading(self.waiting < _BACKLOG_BYTES)
        while self.out and not self.deaf and select.select([], [1], [], _FAREWELL_SECONDS)[1]:
            self._write()

    def _pause(self) -> float | None:
        now = time.monotonic()
        reasons = [self.patience.left(now), self.elastic.left(now) if self.elastic else None]
        return min((seconds for seconds in reasons if seconds is not None), default=None)

    def _set_reading(self, reading: bool) -> None:
        if reading != self.reading:
            self.reading = reading
            change = self.selector.register if reading else self.selector.unregister
            for descriptor in self.pipes:
                change(descriptor, *((selectors.EVENT_READ,) if reading else ()))

    def _read(self, descriptor: int) -> bool:
        rank, kind = self.pipes[descriptor]
        try:
            data = os.read(descriptor, _READ_BYTES)
        except BlockingIOError:
            return False
        self._send(agent_protocol.encode(kind, data, rank))
        if not data:
            self._forget(descriptor)
            self.ranks.wake()
        return bool(data)

    def _forget(self, descriptor: int) -> None:
        del self.pipes[descriptor]
        if self.reading:
            self.selector.unregister(descriptor)

    def _happened(self, event: events.Event) -> None:
        # A rank's output goes before its end.
        rank = getattr(event, "rank", None)
        for descriptor, (whose, _) in list(self.pipes.items()):
            if whose == rank or isinstance(event, events.AllGone):
                output.drain(partial(self._read, descriptor))
        if isinstance(event, events.RankGone):
            self._close_streams(event.rank)
        self._tell(event)
        self.gone = isinstance(event, events.AllGone)

    def _tell(self, event: events.Event) -> None:
        self._send(agent_protocol.encode(agent_protocol.EVENT, events.line(event).encode()))

    def _close_streams(self, rank: int) -> None:
        """Ends the streams of a rank that is gone, because others may come. A process that
        escaped may still hold them."""
        assert self.elastic is not None
        for descriptor, (whose, kind) in list(self.pipes.items()):
            if whose == rank:
                self._send(agent_protocol.encode(kind, b"", rank))
                self._forget(descriptor)
        self.elastic.close_one(rank)

    def _start_one(self, order: StartOne) -> None:
        pipes = self.elastic.start_one(order.rank, order.environment) if self.elastic else None
        for descriptor, kind in _kinds(pipes) if pipes else ():
            self.pipes[descriptor] = order.rank, kind
            if self.reading:
                self.selector.register(descriptor, selectors.EVENT_READ)

    def _obey(self) -> None:
        data = os.read(0, _READ_BYTES)
        for command in self.commands.feed(data) if data else [b""]:
            if self.leaving:
                return
            if isinstance(command, StartOne):
                self._start_one(command)
            elif isinstance(command, EndOne):
                if self.elastic is not None:
                    self.elastic.end_one(command.rank, command.politely)
            else:
                self._obey_letter(command)

    def _obey_letter(self, letter: bytes) -> None:
        if letter == b"T":
            self.ranks.terminate()
            self.patience.asked(self.ranks.ending_seconds(politely=True), time.monotonic())
        elif letter == b"K":
            self._kill()
        elif letter == agent_protocol.ASK:
            self._tell(events.Alive())
        elif letter == agent_protocol.LOOK:
            for rank in self.elastic.stopped() if self.elastic is not None else ():
                self._tell(events.RankStopped(rank))
        elif letter in guardian.SIGNALS:
            self.ranks.forward(guardian.SIGNALS[letter])
        else:
            self._lost_launcher()

    def _kill(self) -> None:
        self.ranks.kill()
        self.patience.asked(self.ranks.ending_seconds(politely=False), time.monotonic())

    def _lost_store(self) -> None:
        """Tells the launcher why this host ends, because the channel may still work."""
        why = "it was closed"
        try:
            self.store.recv(1, socket.MSG_DONTWAIT)
        except OSError as error:
            why = str(error.strerror)
        said = f"the agent's connection with the launcher's store at {self.where} has ended: {why}"
        self._send(agent_protocol.encode(agent_protocol.REFUSED, said.encode()))
        self._leave()

    def _lost_launcher(self) -> None:
        if not self.deaf and self.out:
            self.selector.unregister(1)
            self.out.clear()
            self.waiting = 0
        self.deaf = True
        self._leave()

    def _leave(self) -> None:
        if not self.leaving:
            self.leaving = True
            self.selector.unregister(0)
            self.selector.unregister(self.store)
            self._kill()

    def _send(self, data: bytes) -> None:
        if self.deaf:
            return
        if not self.out:
            self.selector.register(1, selectors.EVENT_WRITE)
        self.out.append(data)
        self.waiting += len(data)

    def _write(self) -> None:
        if not self.out:
            return
        try:
            written = os.write(1, self.out[0])
        except BlockingIOError:
            return
        except OSError:
            self._lost_launcher()
            return
        self.waiting -= written
        if written == len(self.out[0]):
            self.out.popleft()
        else:
            self.out[0] = self.out[0][written:]
        if not self.out:
            self.selector.unregister(1)


def _notice_of_sigterm() -> int:
    """Returns a descriptor that is readable after SIGTERM. The signal ends nothing."""
    notice, wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.signal(signal.SIGTERM, lambda number, frame: None)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    return notice


def _kinds(pipes: events.RankPipes) -> list[tuple[int, bytes]]:
    return [(pipes.stdout, agent_protocol.STDOUT), (pipes.stderr, agent_protocol.STDERR)]


if __name__ == "__main__":
    sys.exit(main())
