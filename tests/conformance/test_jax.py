"""The battery for hvdlite.jax: as test_conformance.py, with the checks of the suite "jax"."""

from __future__ import annotations

import functools

import checks
import pytest
from runner import Configuration, Result, run

pytest.importorskip("jax", reason="jax is not installed")

_ALL = checks.everything("jax")

# Compiling takes most of the time, and how fast its result is does not matter here.
_QUICKLY = {"XLA_FLAGS": "--xla_backend_optimization_level=0"}
CONFIGURATIONS = (
    Configuration("shm-1", "shm", 1, environment=_QUICKLY, suite="jax", modules=("jax_compiled", "jax_training")),
    Configuration("shm-2", "shm", 2, environment=_QUICKLY, suite="jax"),
    Configuration("shm-3", "shm", 3, environment=_QUICKLY, suite="jax", modules=("jax_others", "jax_arguments")),
)
_BY_NAME = {c.name: c for c in CONFIGURATIONS}
_CASES = [
    (c.name, k.name)
    for c in CONFIGURATIONS
    for k in _ALL
    if c.ranks >= k.min_ranks and (not c.modules or k.name.partition(".")[0] in c.modules)
]


@functools.cache
def _wanted(session: pytest.Session, configuration_name: str) -> frozenset[str]:
    parameters = [getattr(item, "callspec", None) for item in session.items if item.path.name == "test_jax.py"]
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
