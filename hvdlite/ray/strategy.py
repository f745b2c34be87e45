"""Placement groups: made, waited for, and removed."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import ray
from ray.util.placement_group import (
    PlacementGroup,
    get_current_placement_group,
    placement_group,
    placement_group_table,
    remove_placement_group,
)
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from hvdlite.ray import bundles
from hvdlite.ray.bundles import Layout

_log = logging.getLogger("hvdlite")
# A group that takes longer is told of, and waited for until the time is over: nodes may be added.
_TELL_SECONDS = 1.0
_ANY_BUNDLE = -1


@dataclass(frozen=True)
class Placement:
    """`indices`: by actor, the bundle in which it runs. `is_own`: was made for this job."""

    group: PlacementGroup
    indices: list[int]
    is_own: bool

    def strategy(self, actor: int) -> Any:
        """Returns what Ray is told of an actor."""
        return PlacementGroupSchedulingStrategy(
            self.group, placement_group_bundle_index=self.indices[actor]
        )

    def remove(self) -> None:
        """Ends what still runs in the group."""
        if self.is_own:
            remove_placement_group(self.group)


def place(layout: Layout, timeout_s: float, use_current: bool) -> Placement:
    """Returns when Ray has reserved the resources of all ranks. Raises TimeoutError."""
    current = get_current_placement_group() if use_current else None
    if current is not None:
        return Placement(current, [_ANY_BUNDLE] * layout.ranks, is_own=False)
    group = _wait(layout.bundles, timeout_s, layout.strategy)
    # Neighbours are on one node, so their ranks follow one another.
    node_of = placement_group_table(group)["bundles_to_node_id"]
    nodes = list(dict.fromkeys(node_of[bundle] for bundle in range(len(layout.bundles))))
    order = sorted(range(len(layout.bundles)), key=lambda bundle: nodes.index(node_of[bundle]))
    return Placement(group, [b for b in order for _ in range(layout.ranks_per_bundle)], is_own=True)


def create_placement_group(
    resources_per_bundle: Mapping[str, float], num_bundles: int, pg_timeout: float, pg_strategy: str
) -> tuple[PlacementGroup, list[dict[str, float]]]:
    """Returns a placement group of equal bundles, and the bundles. Raises TimeoutError."""
    wanted = [dict(resources_per_bundle) for _ in range(num_bundles)]
    return _wait(wanted, pg_timeout, pg_strategy), wanted


def _wait(wanted: list[dict[str, float]], timeout_s: float, strategy: str) -> PlacementGroup:
    group = placement_group(wanted, strategy=strategy)
    try:
        if group.wait(min(_TELL_SECONDS, timeout_s)):
            return group
        _log.warning("%s. It is waited for %g s.", _unmet(wanted, strategy), timeout_s)
        if group.wait(max(0.0, timeout_s - _TELL_SECONDS)):
            return group
        raise TimeoutError(
            f"{_unmet(wanted, strategy)}. Nothing has changed for {timeout_s:g} s "
            "(placement_group_timeout_s): ask for less, or add nodes."
        )
    except BaseException:
        remove_placement_group(group)
        raise


def _unmet(wanted: list[dict[str, float]], strategy: str) -> str:
    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    return bundles.unmet(wanted, strategy, ray.available_resources(), nodes)
