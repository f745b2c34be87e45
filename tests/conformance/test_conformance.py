"""THE battery: every promise over every communicator, at 1 to 4 ranks. A commit's run takes one
number of ranks over each.

Each row of CONFIGURATIONS is one job; see battery.py.
"""

from __future__ import annotations

from dataclasses import replace

from battery import battery_of
from checks import BY_CTYPES
from checks.listing import listed
from runner import Configuration
from tier import by_tier, one_of

_HEAVY = ("collectives", "allreduce", "others", "groups", "mismatch", "determinism")

_ENGINE = frozenset({"engine"})

_ON_ONE_HOST = {n: Configuration(f"shm-{n}", "shm", n) for n in (1, 2, 3, 4)}
_NET = {
    n: Configuration(f"net-{n}", "net", n, tuple(f"host{r}" for r in range(n))) for n in (2, 3, 4)
}
_HIERARCHICAL = Configuration("hierarchical-2x2", "hierarchical", 4, ("a", "a", "b", "b"))
_UNEVEN = (
    Configuration("hierarchical-2+1", "hierarchical", 3, ("a", "a", "b"), modules=_HEAVY),
    Configuration(
        "hierarchical-interleaved", "hierarchical", 4, ("a", "b", "a", "b"), modules=_HEAVY
    ),
)

# What few ranks on one machine never choose over sockets, with what it carries.
_ALGORITHMS = tuple(
    Configuration(
        f"net-{algorithm}",
        "net",
        ranks,
        tuple(f"host{r}" for r in range(ranks)),
        {"HVDLITE_DEBUG_NET_ALGORITHM": algorithm},
        modules=modules,
    )
    for algorithm, ranks, modules in (
        ("direct", 3, ("collectives", "allreduce", "groups")),
        ("gather", 3, ("collectives", "allreduce", "groups")),
        ("ring", 4, ("collectives", "others")),
        ("chain", 4, ("collectives", "others")),
    )
)
# Those of three ranks by turns: net-3 tries the direct one as well, by its own choice.
_SOME_ALGORITHMS = (*one_of(_ALGORITHMS[:2], "algorithm"), *_ALGORITHMS[2:])


def _knob(name: str, ranks: int, **knobs: str) -> Configuration:
    """What changes the way through the engine: the checks tagged "engine"."""
    environment = {f"HVDLITE_{knob}": value for knob, value in knobs.items()}
    return Configuration(f"shm-{ranks}-{name}", "shm", ranks, (), environment, tags=_ENGINE)


_KNOBS = (
    Configuration("net-2-by-choice", "net", 2, (), {"HVDLITE_CPU_OPERATIONS": "net"}, tags=_ENGINE),
    *one_of(
        (_knob("cache-2", 3, CACHE_CAPACITY="2"), _knob("no-cache", 2, CACHE_CAPACITY="0")), "cache"
    ),
    *one_of(
        (
            _knob("no-fusion", 2, FUSION_THRESHOLD="0"),
            _knob("fusion-100", 3, FUSION_THRESHOLD="100"),
        ),
        "fusion",
    ),
    _knob("tiny-chunks", 2, SHM_CHUNK_BYTES="4096", SHM_SMALL_BYTES="0"),
    _knob("delays", 2, DEBUG_DELAY_MICROSECONDS="300", CYCLE_TIME="0"),
)

# On a Python for which hvdlite has no compiled module.
_BY_CTYPES = Configuration("by-ctypes-2", "shm", 2, environment={BY_CTYPES: "1"})

CONFIGURATIONS = by_tier(
    quick=(_ON_ONE_HOST[2], _NET[3]),
    commit=(
        _ON_ONE_HOST[1],
        _ON_ONE_HOST[3],
        _NET[3],
        _HIERARCHICAL,
        *one_of(_UNEVEN, "uneven"),
        *_SOME_ALGORITHMS,
        *_KNOBS,
        replace(_BY_CTYPES, turns=3),
    ),
    everything=(
        *_ON_ONE_HOST.values(),
        *_NET.values(),
        *_ALGORITHMS,
        _HIERARCHICAL,
        *_UNEVEN,
        *_KNOBS,
        _BY_CTYPES,
    ),
)

test_it, test_nothing_is_left_behind = battery_of(CONFIGURATIONS)


def test_each_check_has_a_name_of_its_own() -> None:
    names = [check.name for check in listed()]
    assert len(names) == len(set(names))
