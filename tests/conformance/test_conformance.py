"""THE battery: every promise over every communicator, at 1 to 4 ranks.

Each row of CONFIGURATIONS is one job; see battery.py.
"""

from __future__ import annotations

from battery import battery_of
from checks.listing import listed
from runner import Configuration

_HEAVY = ("allreduce", "allgather", "broadcast", "alltoall", "reducescatter", "groups", "mismatch", "determinism")

CONFIGURATIONS = (
    *(Configuration(f"shm-{n}", "shm", n) for n in (1, 2, 3, 4)),
    *(Configuration(f"net-{n}", "net", n, tuple(f"host{r}" for r in range(n))) for n in (2, 3, 4)),
    Configuration("hierarchical-2x2", "hierarchical", 4, ("a", "a", "b", "b")),
    Configuration("net-2+1", "net", 3, ("a", "a", "b"), modules=_HEAVY),
    Configuration("hierarchical-interleaved", "hierarchical", 4, ("a", "b", "a", "b"), modules=_HEAVY),
    Configuration("net-2-by-choice", "net", 2, (), {"HVDLITE_CPU_OPERATIONS": "net"}, tags=frozenset({"engine"})),
    # The knobs that change the way through the engine. Their checks are those tagged "engine".
    Configuration("shm-3-cache-2", "shm", 3, (), {"HVDLITE_CACHE_CAPACITY": "2"}, tags=frozenset({"engine"})),
    Configuration("shm-2-no-cache", "shm", 2, (), {"HVDLITE_CACHE_CAPACITY": "0"}, tags=frozenset({"engine"})),
    Configuration("shm-2-no-fusion", "shm", 2, (), {"HVDLITE_FUSION_THRESHOLD": "0"}, tags=frozenset({"engine"})),
    Configuration("shm-3-fusion-100", "shm", 3, (), {"HVDLITE_FUSION_THRESHOLD": "100"}, tags=frozenset({"engine"})),
    Configuration(
        "shm-2-tiny-chunks",
        "shm",
        2,
        (),
        {"HVDLITE_SHM_CHUNK_BYTES": "4096", "HVDLITE_SHM_SMALL_BYTES": "0"},
        tags=frozenset({"engine"}),
    ),
    Configuration(
        "shm-2-delays",
        "shm",
        2,
        (),
        {"HVDLITE_DEBUG_DELAY_MICROSECONDS": "300", "HVDLITE_CYCLE_TIME": "0"},
        tags=frozenset({"engine"}),
    ),
)

test_it, test_nothing_is_left_behind = battery_of(CONFIGURATIONS)


def test_each_check_has_a_name_of_its_own() -> None:
    names = [check.name for check in listed()]
    assert len(names) == len(set(names))
