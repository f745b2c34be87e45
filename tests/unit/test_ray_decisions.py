"""What hvdlite.ray decides. None of it needs Ray."""

from __future__ import annotations

from importlib import metadata

import pytest

from hvdlite import ray
from hvdlite.launch.hosts import Host
from hvdlite.ray import bundles, nodes, rank_order
from hvdlite.ray.bundles import Need
from hvdlite.ray.cause import GRACE_SECONDS, SETTLE_SECONDS, CauseFinder, FailureKind
from hvdlite.ray.coordinator import Coordinator
from hvdlite.ray.rank_order import ActorIdentity
from hvdlite.ray.settings import MiniSettings


def found(host: str, *gpus: str, node: str = "") -> ActorIdentity:
    return ActorIdentity(node or host, host, f"{host}.local", gpus)


@pytest.mark.parametrize(
    ("actors", "order"),
    [
        ([found("a"), found("b"), found("a"), found("b")], [0, 2, 1, 3]),
        ([found("b"), found("a"), found("b")], [0, 2, 1]),
        ([found("a", "1"), found("a", "0"), found("a", "10"), found("a", "9")], [1, 0, 3, 2]),
        ([found("a", "GPU-b"), found("a", "GPU-a")], [1, 0]),
        # Two nodes of Ray on one host.
        ([found("a", node="1"), found("b", node="2"), found("a", node="3")], [0, 2, 1]),
    ],
)
def test_ranks_of_a_host_are_neighbours_in_the_order_of_their_gpus(
    actors: list[ActorIdentity], order: list[int]
) -> None:
    assert rank_order.order(actors) == order


def test_a_rank_is_told_its_numbers_and_sees_the_gpus_of_its_host() -> None:
    told = rank_order.environments([found("a", "0"), found("a", "2"), found("b", "7")])
    names = ("RANK", "SIZE", "LOCAL_RANK", "LOCAL_SIZE", "CROSS_RANK", "CROSS_SIZE")
    for prefix in ("HVDLITE", "HOROVOD"):
        numbers = [[int(each[f"{prefix}_{name}"]) for name in names] for each in told]
        assert numbers == [[0, 3, 0, 2, 0, 2], [1, 3, 1, 2, 0, 1], [2, 3, 0, 1, 1, 2]]
    assert [each["CUDA_VISIBLE_DEVICES"] for each in told] == ["0,2", "0,2", "7"]
    assert [each["HOROVOD_HOSTNAME"] for each in told] == ["a.local", "a.local", "b.local"]
    assert "CUDA_VISIBLE_DEVICES" not in rank_order.environments([found("a")])[0]


def test_the_coordinator_counts_the_ranks_of_each_node() -> None:
    coordinator = Coordinator(MiniSettings())
    assert coordinator.node_id_string == ""
    for rank, node in enumerate(["n1", "n2", "n1"]):
        coordinator.register(f"{node}.local", node, rank)
    assert coordinator.node_id_string == "n1:2,n2:1"
    assert coordinator.world_size == 3 and coordinator.hostnames == {"n1.local", "n2.local"}


def test_hosts_are_bundles_on_nodes_of_their_own_and_ranks_are_packed() -> None:
    hosts = bundles.layout(None, 2, 3, Need(2, 1))
    assert hosts.bundles == [{"CPU": 6, "GPU": 3}] * 2 and hosts.strategy == "STRICT_SPREAD"
    assert (hosts.ranks_per_bundle, hosts.ranks) == (3, 6)
    ranks = bundles.layout(3, None, 1, Need())
    assert ranks.bundles == [{"CPU": 1}] * 3 and ranks.strategy == "PACK" and ranks.ranks == 3


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ((None, None, 1, Need()), "either num_workers"),
        ((2, 2, 1, Need()), "either num_workers"),
        ((0, None, 1, Need()), "num_workers=0"),
        ((None, 2, 0, Need()), "num_workers_per_host=0"),
        ((2, None, 1, Need(0, 0)), "cpus_per_worker=0"),
    ],
)
def test_what_cannot_be_laid_out_is_refused(arguments: tuple, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        bundles.layout(*arguments)


def test_a_sentence_says_what_cannot_be_placed() -> None:
    said = bundles.unmet(
        [{"CPU": 4.0}] * 2, "STRICT_SPREAD", {"CPU": 3.0, "memory": 1e9},
        [{"CPU": 4.0, "memory": 1e9}],
    )  # fmt: skip
    assert said == (
        "Ray cannot place 2 x {CPU: 4}, each on a node of its own: {CPU: 3} is free in the cluster,"
        " and its 1 node has {CPU: 4}"
    )
    said = bundles.unmet([{"CPU": 1.0}, {"CPU": 2.0}], "PACK", {}, [{"CPU": 1.0}, {}])
    assert said.startswith("Ray cannot place {CPU: 1} + {CPU: 2}: {CPU: 0} is free")
    assert said.endswith("its 2 nodes have {CPU: 1}, {CPU: 0}")


def node(name: str, cpus: float, alive: bool = True, **more: float) -> dict:
    return {
        "NodeID": f"{name}-0123456789", "NodeManagerAddress": "10.0.0.1", "Alive": alive,
        "NodeManagerHostname": f"{name}.local", "Resources": {"CPU": cpus, **more},
    }  # fmt: skip


def test_nodes_have_slots_for_what_they_have_room() -> None:
    there = [node("a", 4), node("b", 3, GPU=1.0), node("c", 1), node("d", 8, alive=False)]
    assert nodes.slots(there, Need(2)) == {"a-0123456789": 2, "b-0123456789": 1}
    assert nodes.slots(there, Need(1, 1)) == {"b-0123456789": 1}
    assert nodes.slots(there, Need(0, 0.5)) == {"b-0123456789": 2}


def test_nodes_are_called_by_their_addresses_as_in_horovod_where_these_differ() -> None:
    there = [node("a", 4) | {"NodeManagerAddress": "10.0.0.2"}, node("b", 1), node("c", 2, False)]
    found = nodes.slots(there, Need(1))
    assert found == {"10.0.0.2": 4, "10.0.0.1": 1}
    assert [host.slots for host in nodes.hosts(there, found)] == [4, 1]


def test_nodes_of_one_machine_are_hosts_with_names_of_their_own() -> None:
    there = [node("a", 4), node("b", 3), node("gone", 8, alive=False)]
    a, b = Host("10.0.0.1-a-012345", 2), Host("10.0.0.1-b-012345", 1)
    assert nodes.hosts(there, {"b-0123456789": 1, "a-0123456789": 2}) == (b, a)
    assert nodes.hosts(there, {"gone-0123456789": 1, "a.local": 2, "nowhere": 1}) == (a,)
    assert nodes.hosts(there, {"a-0123456789": 0}) == ()
    # An address is that of both.
    both = (Host(a.name, 3), Host(b.name, 3))
    assert nodes.hosts(there, {"10.0.0.1": 3}) == both
    assert nodes.node_of(there, b.name) == "b-0123456789"
    assert nodes.node_of(there, nodes.name(there[2])) is None


@pytest.mark.parametrize(
    ("heard", "blamed"),
    [
        ([(1, FailureKind.OWN)], 1),
        ([(0, FailureKind.CONSEQUENCE), (1, FailureKind.OWN), (2, FailureKind.OWN)], 1),
        ([(0, FailureKind.CONSEQUENCE), (2, FailureKind.DEATH), (1, FailureKind.CONSEQUENCE)], 2),
        ([(0, FailureKind.DEATH), (1, FailureKind.OWN)], 1),
    ],
)
def test_the_cause_is_blamed_and_not_its_consequence(
    heard: list[tuple[int, FailureKind]], blamed: int
) -> None:
    failures = CauseFinder()
    assert failures.cause(0.0) is None
    for now, (rank, kind) in enumerate(heard):
        failures.note(rank, kind, now / 10)
    assert failures.cause(len(heard) / 10) == blamed == failures.first()


def test_a_consequence_is_blamed_when_its_cause_does_not_come() -> None:
    failures = CauseFinder()
    failures.note(3, FailureKind.CONSEQUENCE, 10.0)
    failures.note(2, FailureKind.CONSEQUENCE, 10.5)
    assert failures.cause(10.0 + SETTLE_SECONDS - 0.01) is None
    assert failures.cause(10.0 + SETTLE_SECONDS) == 3


def test_the_others_have_a_while_after_the_first_failure() -> None:
    failures = CauseFinder()
    assert failures.left([0, 1], 100.0) is None
    failures.note(1, FailureKind.OWN, 10.0)
    assert failures.left([0], 11.0) == GRACE_SECONDS - 1
    assert failures.left([0], 99.0) == 0.0


@pytest.mark.parametrize(
    ("version", "fits"), [("2.60.0", True), ("2.9.3", True), ("2.8.1", False), ("3.0.0rc1", True)]
)
def test_an_old_ray_is_refused_in_one_sentence(
    version: str, fits: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metadata, "version", lambda name: version)
    if fits:
        ray.require_ray()
    else:
        with pytest.raises(ImportError, match=r'2\.8\.1 is installed: pip install "\.\[ray\]"'):
            ray.require_ray()


def test_a_missing_ray_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", missing)
    with pytest.raises(ImportError, match=r'is not installed: pip install "\.\[ray\]"'):
        from hvdlite.ray import RayExecutor  # noqa: F401
