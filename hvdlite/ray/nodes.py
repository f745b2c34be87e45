"""The nodes of a cluster as hosts with slots. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from hvdlite.launch.hosts import Host
from hvdlite.ray.bundles import Need

_SHOWN = 8  # digits of a node's id

Node = Mapping[str, Any]  # an entry of ray.nodes()


def name(node: Node) -> str:
    """Returns what a node is called as a host. Two nodes of one machine have different names."""
    return f"{node['NodeManagerAddress']}-{node['NodeID'][:_SHOWN]}".replace(":", ".")


def slots(nodes: Iterable[Node], need: Need) -> dict[str, int]:
    """Returns how many ranks each living node has room for, if it is used for nothing else, by the
    node's address as in Horovod. Nodes with one address are told apart by their ids. Nodes without
    room are left out."""
    living = [node for node in nodes if node["Alive"]]
    at = Counter(node["NodeManagerAddress"] for node in living)
    found = {}
    for node in living:
        has = node["Resources"]
        room = min(int(has.get(kind, 0.0) // each) for kind, each in need.times(1).items())
        address = node["NodeManagerAddress"]
        if room:
            found[address if at[address] == 1 else node["NodeID"]] = room
    return found


def hosts(nodes: Sequence[Node], slots_by_key: Mapping[str, int]) -> tuple[Host, ...]:
    """Returns the hosts of a discovery, in its order. Its keys are ids, addresses or names of
    nodes. A key that names no living node is left out."""
    living = sorted((node for node in nodes if node["Alive"]), key=name)
    found: dict[str, Host] = {}
    for key, room in slots_by_key.items():
        for node in living:
            if room > 0 and key in keys(node):
                found.setdefault(name(node), Host(name(node), room))
    return tuple(found.values())


def node_of(nodes: Iterable[Node], host: str) -> str | None:
    """Returns the id of the living node with this name."""
    return next((node["NodeID"] for node in nodes if node["Alive"] and name(node) == host), None)


def keys(node: Node) -> tuple[str, ...]:
    """Returns by what a discovery may call a node."""
    others = (node.get("NodeManagerHostname"), node.get("NodeName"))
    return (node["NodeID"], name(node), node["NodeManagerAddress"], *filter(None, others))
