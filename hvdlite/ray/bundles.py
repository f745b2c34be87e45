"""What a job asks Ray to place: bundles of resources, each on one node. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Need:
    """The resources of one rank."""

    cpus: float = 1
    gpus: float = 0

    def times(self, ranks: int) -> dict[str, float]:
        return {
            name: each * ranks for name, each in (("CPU", self.cpus), ("GPU", self.gpus)) if each
        }


def need_of(cpus: float, use_gpu: bool, gpus: float | None) -> Need:
    """Raises ValueError for GPUs without `use_gpu`."""
    if gpus and not use_gpu:
        raise ValueError("gpus_per_worker and gpus_per_slot need use_gpu=True.")
    return Need(cpus, (gpus or 1) if use_gpu else 0)


@dataclass(frozen=True)
class Layout:
    """`strategy`: Ray's word for how bundles lie. `ranks_per_bundle`: in each of them."""

    bundles: list[dict[str, float]]
    strategy: str
    ranks_per_bundle: int

    @property
    def ranks(self) -> int:
        return len(self.bundles) * self.ranks_per_bundle


def layout(num_workers: int | None, num_hosts: int | None, per_host: int, need: Need) -> Layout:
    """Each of `num_hosts` nodes has `per_host` ranks, or `num_workers` ranks lie where there is
    room. Raises ValueError unless exactly one of them is given."""
    if (num_workers is None) == (num_hosts is None):
        raise ValueError(
            "RayExecutor needs either num_workers, for ranks wherever there is room, or num_hosts "
            "with num_workers_per_host."
        )
    numbers = {"num_workers": num_workers, "num_hosts": num_hosts, "num_workers_per_host": per_host}
    for name, number in numbers.items():
        if number is not None and number < 1:
            raise ValueError(f"{name}={number} is not allowed: expected at least 1.")
    if not need.times(1):
        raise ValueError("cpus_per_worker=0 is allowed only with GPUs: Ray places resources.")
    if num_hosts is not None:
        return Layout([need.times(per_host)] * num_hosts, "STRICT_SPREAD", per_host)
    return Layout([need.times(1)] * (num_workers or 0), "PACK", 1)


def unmet(
    wanted: Sequence[Mapping[str, float]],
    strategy: str,
    available: Mapping[str, float],
    nodes: Sequence[Mapping[str, float]],
) -> str:
    """Returns a sentence for a placement group that cannot be met now. `available`: what is free in
    the whole cluster. `nodes`: what each node has in all."""
    same = len({tuple(sorted(bundle.items())) for bundle in wanted}) == 1
    bundles = f"{len(wanted)} x {_shown(wanted[0])}" if same else " + ".join(map(_shown, wanted))
    where = ", each on a node of its own" if strategy == "STRICT_SPREAD" else ""
    free = {name: available.get(name, 0.0) for name in wanted[0]}
    has = ", ".join(_shown({name: node.get(name, 0.0) for name in wanted[0]}) for node in nodes)
    whose = "1 node has" if len(nodes) == 1 else f"{len(nodes)} nodes have"
    return (
        f"Ray cannot place {bundles}{where}: {_shown(free)} is free in the cluster, and its "
        f"{whose} {has}"
    )


def _shown(resources: Mapping[str, float]) -> str:
    return "{" + ", ".join(f"{name}: {number:g}" for name, number in resources.items()) + "}"
