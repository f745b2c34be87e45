"""The way that the configuration is named after was taken: the core's own counters say so."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

import hvdlite as hvd
from checks import ALWAYS, BY_CTYPES, check
from checks.here import SUM, Here
from hvdlite import _core

# Elements of float32. No way for small tensors takes the large ones, where ways differ by size.
_SMALL, _LARGE = 16, 1 << 20
_FORCED = {
    "allreduce": ("one-shot", "direct", "gather"),
    "allgather": ("pairwise", "ring"),
    "broadcast": ("tree", "chain"),
}


def _carried(run: Callable[[], object]) -> dict[str, dict[str, int]]:
    """What each way has carried meanwhile, by operation."""
    before = hvd.metrics()["carried_by"]
    run()
    grown: dict[str, dict[str, int]] = {}
    for way, kinds in hvd.metrics()["carried_by"].items():
        for kind, count in kinds.items():
            more = count - before.get(way, {}).get(kind, 0)
            if more:
                grown.setdefault(way, {})[kind] = more
    return grown


def _over_sockets(here: Here, kind: str, large: bool) -> str:
    forced = here.environment.get("HVDLITE_DEBUG_NET_ALGORITHM", "auto")
    # it holds 4 MiB of all ranks
    if forced in _FORCED.get(kind, ()) and not (forced == "gather" and large):
        return f"net {forced}"
    if kind == "allreduce":
        return "net direct" if large else "net one-shot"
    if kind == "broadcast":
        return "net chain" if here.size == 3 or (here.size == 4 and large) else "net tree"
    # Between two ranks a ring and pairs are the same.
    return {"alltoall": "net pairwise", "reducescatter": "net direct"}.get(kind, "net ")


def _over_mpi(here: Here, kind: str, large: bool) -> str:
    wish = here.environment.get("HVDLITE_MPI_ALLREDUCE", "auto")
    if kind == "allreduce":
        if wish == "library":
            return "mpi library"
        return "mpi direct" if large else "mpi gather" if wish == "gather" else "mpi one-shot"
    return {"broadcast": "mpi library", "reducescatter": "mpi direct"}.get(kind, "mpi pairwise")


def _in_memory(here: Here, kind: str, large: bool) -> str:
    if kind != "allreduce":
        return "shm stream"
    limit = int(here.environment.get("HVDLITE_SHM_SMALL_BYTES", "32768")) * (
        8 if here.size == 2 else 1
    )
    at_once = limit >= 4 * _SMALL and not large
    return "shm exchange" if at_once else "shm shares"


def _expected(here: Here, kind: str, large: bool) -> str:
    """How the name of the way begins."""
    if here.size == 1:
        return "self"
    if here.communicator == "hierarchical" and kind in ("allreduce", "broadcast"):
        return "hierarchical"
    if here.communicator == "shm":
        return _in_memory(here, kind, large)
    return _over_mpi(here, kind, large) if here.over_mpi else _over_sockets(here, kind, large)


def _taken_by(here: Here, way: str) -> tuple[str, ...]:
    """How the names of the ways begin that a way may take itself: each counts, too."""
    if way == "hierarchical":
        return ("mpi ", "net gather") if here.over_mpi else ("net ",)
    if way == "mpi gather":
        return ("net gather",)
    return ()


@check(tags=[ALWAYS])
def the_core_is_called_by_the_module_that_the_configuration_has(here: Here) -> None:
    by_ctypes = Path(_core.__file__).name == "_core.py"
    assert by_ctypes == (BY_CTYPES in here.environment), _core.__file__


@check(tags=[ALWAYS], kind=["allreduce", "allgather", "broadcast", "alltoall", "reducescatter"])
def each_collective_goes_the_way_of_the_configuration(here: Here, kind: str) -> None:
    calls: dict[str, Callable[[np.ndarray], object]] = {
        "allreduce": lambda x: hvd.allreduce(x, op=SUM, name="ways"),
        "allgather": lambda x: hvd.allgather(x, name="ways"),
        "broadcast": lambda x: hvd.broadcast(x, 0, name="ways"),
        "alltoall": lambda x: hvd.alltoall(x, np.full(here.size, len(x) // here.size), name="ways"),
        "reducescatter": lambda x: hvd.reducescatter(x, op=SUM, name="ways"),
    }
    for large in (False, True) if kind in ("allreduce", "broadcast") else (False,):
        x = np.ones((_LARGE if large else _SMALL) // here.size * here.size, np.float32)
        carried = _carried(lambda x=x: calls[kind](x))
        expected = _expected(here, kind, large)
        ways = [way for way in carried if way.startswith(expected)]
        assert len(ways) == 1 and carried[ways[0]] == {kind: 1}, (
            f"expected {expected}, got {carried}"
        )
        others = {way for way in carried if way != ways[0]}
        assert all(way.startswith(_taken_by(here, expected)) for way in others), (
            f"expected {expected}, got {carried}"
        )


@check(tags=[ALWAYS])
def what_comes_again_is_asked_for_by_its_number_where_that_is_kept(here: Here) -> None:
    def hits(names: list[str]) -> int:
        before = hvd.metrics()["requests_by_slot"]
        for _ in range(3):
            for name in names:
                hvd.allreduce(np.ones(1), op=SUM, name=name)
        return int(hvd.metrics()["requests_by_slot"] - before)

    capacity = int(here.environment.get("HVDLITE_CACHE_CAPACITY", "65536"))
    assert hits(["ways.one"]) == (2 if capacity else 0)
    assert hits(["ways.a", "ways.b", "ways.c", "ways.d"]) == (8 if capacity >= 4 else 0)


@check(tags=[ALWAYS])
def a_group_is_one_batch_where_fusion_is_on(here: Here) -> None:
    def batches(run: Callable[[], object]) -> tuple[int, int]:
        before = hvd.metrics()
        run()
        return tuple(hvd.metrics()[each] - before[each] for each in ("batches", "batches_fused"))

    threshold = int(here.environment.get("HVDLITE_FUSION_THRESHOLD", str(1 << 27)))
    three = [np.ones(20) for _ in range(3)]  # of more than 100 bytes
    group = batches(lambda: hvd.grouped_allreduce(three, op=SUM, name="ways.group"))
    assert group == ((1, 1) if threshold else (3, 0)), group

    def alone() -> None:
        for handle in [
            hvd.allreduce_async(x, op=SUM, name=f"ways.{i}") for i, x in enumerate(three * 10)
        ]:
            hvd.synchronize(handle)

    if threshold <= 100:
        assert batches(alone) == (30, 0)
