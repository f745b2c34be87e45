"""THE battery: every promise over every communicator, at 1 to 4 ranks.

Each row of CONFIGURATIONS is one job in which all checks run (see worker.py); each check is a test of its own here.
`pytest -k shm-3`, `pytest -k 'allreduce and net'` choose as usual: only what is chosen runs.
"""

from __future__ import annotations

import checks
import pytest
from runner import Configuration, Result, run

_ALL = checks.everything()
_HEAVY = ("allreduce", "allgather", "broadcast", "alltoall", "reducescatter", "groups", "mismatch", "determinism")

CONFIGURATIONS = (
    *(Configuration(f"shm-{n}", "shm", n) for n in (1, 2, 3, 4)),
    *(Configuration(f"net-{n}", "net", n, tuple(f"host{r}" for r in range(n))) for n in (2, 3, 4)),
    Configuration("hierarchical-2x2", "hierarchical", 4, ("a", "a", "b", "b")),
    Configuration("hierarchical-2+1", "hierarchical", 3, ("a", "a", "b"), modules=_HEAVY),
    Configuration("hierarchical-interleaved", "hierarchical", 4, ("a", "b", "a", "b"), modules=_HEAVY),
    Configuration("net-2-by-choice", "net", 2, (), {"HVDLITE_COMMUNICATOR": "net"}, tags=frozenset({"engine"})),
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
_BY_NAME = {c.name: c for c in CONFIGURATIONS}


def _belongs(configuration: Configuration, check: checks.Check) -> bool:
    if configuration.ranks < check.min_ranks:
        return False
    if configuration.modules and check.name.partition(".")[0] not in configuration.modules:
        return False
    return not configuration.tags or bool(configuration.tags & check.tags)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "check_name" in metafunc.fixturenames:
        cases = [(c.name, k.name) for c in CONFIGURATIONS for k in _ALL if _belongs(c, k)]
        metafunc.parametrize(("configuration_name", "check_name"), cases, ids=[f"{c}-{k}" for c, k in cases])


_results: dict[str, Result] = {}


def _result(name: str, request: pytest.FixtureRequest) -> Result:
    if name not in _results:
        wanted = {
            item.callspec.params.get("check_name")
            for item in request.session.items
            if getattr(item, "callspec", None) and item.callspec.params.get("configuration_name") == name
        }
        chosen = {k.name: k.seconds for k in _ALL if k.name in wanted}
        _results[name] = run(_BY_NAME[name], chosen)
    return _results[name]


def test_it(configuration_name: str, check_name: str, request: pytest.FixtureRequest) -> None:
    outcome = _result(configuration_name, request).outcomes[check_name]
    if outcome.error:
        pytest.fail(f"{check_name} over {configuration_name}\n{outcome.error}", pytrace=False)


@pytest.mark.parametrize("configuration_name", _BY_NAME)
def test_nothing_is_left_behind(configuration_name: str) -> None:
    """Runs last: what the jobs above left in /dev/shm or among the processes."""
    if configuration_name in _results:
        assert not _results[configuration_name].leftovers


def test_each_check_has_a_name_of_its_own() -> None:
    names = [check.name for check in _ALL]
    assert len(names) == len(set(names))
