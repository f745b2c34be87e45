"""The battery for hvdlite.tensorflow: as test_conformance.py, with the checks of the suite "tensorflow"."""

from __future__ import annotations

import functools

import checks
import pytest
from runner import Configuration, Result, run

pytest.importorskip("tensorflow", reason="tensorflow is not installed")

_ALL = checks.everything("tensorflow")

# One process of each job imports TensorFlow for seconds, so there are few jobs. Two threads for a graph's nodes: what
# blocks one of them would show.
_QUIET = {"TF_CPP_MIN_LOG_LEVEL": "2", "TF_NUM_INTEROP_THREADS": "2", "TF_NUM_INTRAOP_THREADS": "1"}
CONFIGURATIONS = (
    Configuration("shm-1", "shm", 1, (), _QUIET, suite="tensorflow", tags=frozenset({"essential"})),
    Configuration("shm-3", "shm", 3, (), _QUIET, suite="tensorflow"),
    Configuration("net-2", "net", 2, ("host0", "host1"), _QUIET, suite="tensorflow"),
    Configuration(
        "without-kernels-2", "shm", 2, (), {**_QUIET, "HVDLITE_TENSORFLOW_KERNELS": "0"}, suite="tensorflow",
        tags=frozenset({"essential"}),
    ),
)  # fmt: skip
_BY_NAME = {c.name: c for c in CONFIGURATIONS}
_CASES = [
    (c.name, k.name) for c in CONFIGURATIONS for k in _ALL if c.ranks >= k.min_ranks and (not c.tags or c.tags & k.tags)
]


@functools.cache
def _wanted(session: pytest.Session, configuration_name: str) -> frozenset[str]:
    parameters = [getattr(item, "callspec", None) for item in session.items if item.path.name == "test_tensorflow.py"]
    chosen = [p.params for p in parameters if p and p.params.get("configuration_name") == configuration_name]
    return frozenset(p["check_name"] for p in chosen if "check_name" in p)


_results: dict[str, Result] = {}


@pytest.mark.parametrize(("configuration_name", "check_name"), _CASES, ids=[f"{c}-{k}" for c, k in _CASES])
def test_it(configuration_name: str, check_name: str, request: pytest.FixtureRequest) -> None:
    if configuration_name not in _results:
        wanted = _wanted(request.session, configuration_name)
        chosen = {k.name: k.seconds for k in _ALL if k.name in wanted}
        _results[configuration_name] = run(_BY_NAME[configuration_name], chosen)
    outcome = _results[configuration_name].outcomes[check_name]
    if outcome.error:
        pytest.fail(f"{check_name} over {configuration_name}\n{outcome.error}", pytrace=False)


@pytest.mark.parametrize("configuration_name", _BY_NAME)
def test_nothing_is_left_behind(configuration_name: str) -> None:
    """Runs last: what the jobs above left in /dev/shm or among the processes."""
    if configuration_name in _results:
        assert not _results[configuration_name].leftovers
