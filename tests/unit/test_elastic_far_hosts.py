"""Elastic jobs on several hosts: orders to agents, connector, a hostfile that changes."""

from __future__ import annotations

import os
import select
from pathlib import Path

import pytest

from hvdlite.exceptions import Cause as LossCause
from hvdlite.exceptions import Loss
from hvdlite.job.membership import GenerationFailure, Membership
from hvdlite.launch.elastic import host_discovery
from hvdlite.launch.elastic.agents import Connector, ConnectResult
from hvdlite.launch.elastic.discovery import Answer
from hvdlite.launch.hosts import Host
from hvdlite.launch.spawn import events
from hvdlite.launch.spawn.agent_protocol import Command, Commands, EndOne, StartOne
from hvdlite.launch.spawn.ssh import RemoteRanks
from hvdlite.rendezvous.documents import Cause, RankNumbers

SECONDS = 20.0


@pytest.mark.parametrize("piece", [1, 7, 1000])
def test_commands_arrive_whole_however_they_are_cut(piece: int) -> None:
    sent: list[Command] = [
        StartOne(3, {"A": "\udcff\n", "B": "P"}),
        b"1",
        EndOne(3, politely=True),
        b"T",
    ]
    data = b"".join(each if isinstance(each, bytes) else each.encode() for each in sent)
    commands = Commands()
    found = []
    for begin in range(0, len(data), piece):
        found += commands.feed(data[begin : begin + piece])
    assert found == sent


@pytest.mark.parametrize(
    "event",
    [
        events.RankGone(3),
        events.RankGone(3, 2),
        events.HostLeaving(),
        events.RankStopped(3),
        events.Alive(),
    ],
)
def test_events_of_elastic_agents_are_lines(event: events.Event) -> None:
    assert events.parse(events.line(event)) == event


def _ready(source: Connector | host_discovery.HostDiscovery) -> None:
    assert select.select([source], [], [], SECONDS)[0], "nothing has come"


def test_contacts_tell_what_has_become_of_a_host() -> None:
    def reach(host: str, slots: int, connector: Connector) -> RemoteRanks | None:
        connector.put(f"{slots} slots")
        if host == "far":
            raise ConnectionError("no such host")
        return None

    connector = Connector(reach)
    found: list[ConnectResult | str] = []
    for host, slots in (("here", 2), ("far", 3)):
        connector.begin(host, slots)
    while len(found) < 4:
        _ready(connector)
        found += connector.take()
    connector.close()
    assert {each for each in found if isinstance(each, str)} == {"2 slots", "3 slots"}
    assert ConnectResult("here") in found and ConnectResult("far", problem="no such host") in found


def test_the_end_does_not_wait_for_a_host() -> None:
    def reach(host: str, slots: int, connector: Connector) -> RemoteRanks | None:
        assert select.select([connector.over], [], [], SECONDS)[0], "the end does not come"
        raise ConnectionError("not needed any more")

    connector = Connector(reach)
    connector.begin("slow", 1)
    connector.close()


def _next(source: host_discovery.HostfileDiscovery) -> Answer:
    _ready(source)
    [answer] = source.take()
    return answer


def test_a_hostfile_is_read_when_it_has_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host_discovery, "DISCOVER_HOSTS_FREQUENCY_SECS", 0.01)

    def write(text: str) -> None:
        (tmp_path / "new").write_text(text)
        os.replace(tmp_path / "new", tmp_path / "hosts")

    write("a\n")
    source = host_discovery.HostfileDiscovery(str(tmp_path / "hosts"), 2, [Host("a", 2)])
    try:
        assert _next(source) == Answer((Host("a", 2),))
        write("a slots=1\nb\n")
        assert _next(source) == Answer((Host("a", 1), Host("b", 2)))
        write("no host at all\n")
        trouble = _next(source).trouble
        assert "is not a host" in trouble and trouble.endswith("Its last hosts stay.")
        write("b\n")
        assert _next(source) == Answer((Host("b", 2),))
        (tmp_path / "hosts").unlink()
        assert "No such file" in _next(source).trouble
    finally:
        source.close()


class _NoStore:
    def close(self) -> None: ...
    def set(self, key: str, value: bytes) -> None: ...
    def delete(self, key: str) -> None: ...
    def get(self, key: str, timeout: float | None = None) -> bytes:
        raise AssertionError(key)


@pytest.mark.parametrize(
    ("me", "loss", "accused"),
    [
        # Rank 1 has noticed that it does not reach ranks 0, 3 and 4.
        (0, Loss(LossCause.NETWORK, (0, 1, 3, 4)), (1, Cause.OUTAGE)),
        (1, Loss(LossCause.NETWORK, (0, 1, 3, 4)), (0, Cause.OUTAGE)),
        (4, Loss(LossCause.NETWORK, (0, 1, 3, 4)), (1, Cause.OUTAGE)),
        (2, Loss(LossCause.NETWORK, (0, 1, 3, 4)), (None, Cause.OUTAGE)),
        (2, Loss(LossCause.SILENT, (0,)), (0, Cause.SILENCE)),
        (2, Loss(LossCause.CLOSED, (0,)), (0, Cause.CLOSED)),
        (2, Loss(LossCause.DIED, (0,)), (0, Cause.CLOSED)),
        (2, Loss(), (None, Cause.CLOSED)),
    ],
)
def test_two_ranks_that_found_no_way_to_each_other_accuse_each_other(
    me: int, loss: Loss, accused: tuple[int | None, Cause]
) -> None:
    place = RankNumbers(me, 5, 0, 1, 0, 1)
    member = Membership(7, 0, b"", place, meets=False, connect=_NoStore)
    member.has_failed(loss)
    assert member.failure == GenerationFailure(True, *accused)
