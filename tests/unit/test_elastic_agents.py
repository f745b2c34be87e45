"""When agents of an elastic job's hosts are called, and when they are told to end."""

from __future__ import annotations

import time
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from hvdlite.launch.elastic.agents import Agents, ConnectResult
from hvdlite.launch.hosts import Host
from hvdlite.launch.spawn.silent_hosts import PAUSE, most_unanswered

SILENCE = 3.0
DESCRIPTOR = 77


class Loop:
    def __init__(self) -> None:
        self.added: list[str] = []

    def add(self, host: str, group: object) -> None:
        self.added.append(host)

    def listen(self, rank: int, pipes: object) -> None: ...


class Group:
    """Agents and the ranks of this host alike."""

    def __init__(self, host: str) -> None:
        self.host = host
        self.did: list[str] = []
        self.order = SimpleNamespace(silence_seconds=SILENCE)

    def fileno(self) -> int:
        return DESCRIPTOR

    def inquire(self, letter: bytes) -> None:
        self.did.append(f"inquire {letter.decode()}")

    def stopped(self) -> list[int]:
        return [1]

    def start(self) -> None: ...
    def start_one(self, rank: int, own: Mapping[str, str]) -> None:
        self.did.append(f"start {rank}")

    def end_one(self, rank: int, politely: bool) -> None:
        self.did.append(f"end {rank}")

    def terminate(self) -> None:
        self.did.append("terminate")


class Connector:
    def __init__(self) -> None:
        self.called: list[tuple[str, int]] = []

    def begin(self, host: str, slots: int) -> None:
        self.called.append((host, slots))

    def dismiss(self, agent: Group) -> None: ...


class World:
    def __init__(self) -> None:
        self.loop, self.here, self.connector = Loop(), Group("localhost"), Connector()
        self.now = time.monotonic()
        loop: Any = self.loop
        here: Any = self.here
        connector: Any = self.connector
        self.agents = Agents(loop, here, ["localhost"], connector)

    def reach(self, host: str) -> Group:
        group = Group(host)
        agent: Any = group
        self.agents.connected(ConnectResult(host, agent))
        return group

    def gone(self, agent: Any) -> bool:
        return self.agents.gone(agent)


@pytest.fixture
def world() -> World:
    world = World()
    world.agents.named([Host("localhost", 2), Host("far", 3)])
    return world


def test_members_wait_until_their_host_is_reached(world: World) -> None:
    world.agents.start("localhost", 1, {})
    world.agents.start("far", 2, {})
    world.agents.start("far", 3, {})
    assert world.here.did == ["start 1"]
    assert world.connector.called == [("far", 3)], "it is called once"
    far = world.reach("far")
    world.agents.start("far", 4, {})
    assert far.did == ["start 2", "start 3", "start 4"]
    assert world.loop.added == ["localhost", "far"]


def test_a_host_may_turn_out_to_be_this_machine(world: World) -> None:
    world.agents.start("far", 2, {})
    world.agents.connected(ConnectResult("far"))
    assert world.here.did == ["start 2"] and world.loop.added == ["localhost"]


def test_a_member_that_waits_is_not_started_when_it_is_ended(world: World) -> None:
    world.agents.start("far", 2, {})
    assert not world.agents.end("far", 2, politely=True)
    assert world.reach("far").did == []
    world.agents.start("localhost", 1, {})
    assert world.agents.end("localhost", 1, politely=True)
    assert world.here.did == ["start 1", "end 1"]


def test_a_host_is_called_again_after_it_could_not_be_reached(world: World) -> None:
    world.agents.start("far", 2, {})
    world.agents.connected(ConnectResult("far", problem="it is down"))
    world.agents.start("far", 3, {})
    assert len(world.connector.called) == 2
    assert world.reach("far").did == ["start 3"]


def test_agents_of_no_more_use_end(world: World) -> None:
    world.agents.start("far", 2, {})
    far = world.reach("far")
    world.agents.release({"far"})
    world.agents.named([Host("localhost", 2)])
    world.agents.release({"far"})
    assert far.did == ["start 2"], "a member is there"
    world.agents.release(set())
    world.agents.release(set())
    assert far.did == ["start 2", "terminate"]
    assert world.gone(far), "it was told to"


def test_a_host_that_is_named_again_while_its_agent_ends_gets_a_new_one(world: World) -> None:
    world.agents.start("far", 2, {})
    far = world.reach("far")
    world.agents.named([])
    world.agents.release(set())
    world.agents.named([Host("far", 1)])
    world.agents.start("far", 3, {})
    assert len(world.connector.called) == 1
    assert world.gone(far)
    assert world.connector.called[1:] == [("far", 1)]
    assert world.reach("far").did == ["start 3"]


def test_an_agent_that_was_sent_sigterm_ends_with_its_last_member(world: World) -> None:
    world.agents.start("far", 2, {})
    far = world.reach("far")
    world.agents.noticed("far")
    world.agents.release({"far"})
    assert far.did == ["start 2"]
    world.agents.release(set())
    assert far.did == ["start 2", "terminate"]


def test_an_agent_that_ends_by_itself_is_lost(world: World) -> None:
    world.agents.start("far", 2, {})
    assert not world.gone(world.reach("far"))


def _ask(world: World, times: int, *unread: int) -> list[str]:
    """The hosts that are lost then."""
    for _ in range(times):
        world.now += PAUSE
        lost = world.agents.ask(unread, world.now)
    return [agent.host for agent in lost]


def test_an_agent_that_does_not_answer_is_lost(world: World) -> None:
    world.agents.start("far", 2, {})
    far = world.reach("far")
    most = most_unanswered(SILENCE)
    assert _ask(world, most) == []
    world.agents.heard("far")
    world.agents.heard("localhost")
    assert _ask(world, most) == []
    assert _ask(world, 1) == ["far"]
    assert far.did == ["start 2"] + ["inquire A"] * (2 * most + 1)
    world.gone(far)
    assert _ask(world, 1) == []


def test_an_agent_that_is_not_read_is_not_asked(world: World) -> None:
    world.agents.start("far", 2, {})
    far = world.reach("far")
    assert _ask(world, 100, DESCRIPTOR) == []
    assert far.did == ["start 2"]
    assert world.agents.left(world.now) == PAUSE, "the loop does not spin"


def test_members_that_are_stopped_are_looked_for_here_and_by_the_agents(world: World) -> None:
    world.agents.start("far", 2, {})
    far = world.reach("far")
    assert world.agents.look() == [1]
    assert far.did == ["start 2", "inquire L"]
