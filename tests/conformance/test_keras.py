"""The battery for hvdlite.keras: as test_conformance.py, with the suite "keras" on each backend, and "tf_keras"."""

from __future__ import annotations

import functools
from importlib.util import find_spec

import checks
import pytest
from runner import Configuration, Result, run

pytest.importorskip("keras", reason="keras is not installed")

_ALL = {suite: checks.everything(suite) for suite in ("keras", "tf_keras")}
_QUIET = {"TF_CPP_MIN_LOG_LEVEL": "3", "OMP_NUM_THREADS": "1"}


def _on(backend: str, ranks: int) -> Configuration:
    suite = "tf_keras" if backend == "tf_keras" else "keras"
    chosen = {"TF_USE_LEGACY_KERAS": "1"} if backend == "tf_keras" else {"KERAS_BACKEND": backend}
    tags = frozenset(["three"]) if ranks == 3 else frozenset[str]()
    return Configuration(f"{backend}-{ranks}", "shm", ranks, environment=_QUIET | chosen, tags=tags, suite=suite)


def _applies(check: checks.Check, configuration: Configuration) -> bool:
    here = not configuration.tags or bool(check.tags & configuration.tags)
    return here and check.min_ranks <= configuration.ranks


# Three ranks for what depends on their number.
CONFIGURATIONS = tuple(
    _on(backend, ranks)
    for backend, numbers in (("torch", (2, 3)), ("jax", (2, 3)), ("tensorflow", (2, 3)), ("tf_keras", (2,)))
    for ranks in numbers
    if find_spec(backend)
)
_BY_NAME = {c.name: c for c in CONFIGURATIONS}
_CASES = [(c.name, k.name) for c in CONFIGURATIONS for k in _ALL[c.suite] if _applies(k, c)]


@functools.cache
def _wanted(session: pytest.Session, configuration_name: str) -> frozenset[str]:
    parameters = [getattr(item, "callspec", None) for item in session.items if item.path.name == "test_keras.py"]
    chosen = [p.params for p in parameters if p and p.params.get("configuration_name") == configuration_name]
    return frozenset(p["check_name"] for p in chosen if "check_name" in p)


_results: dict[str, Result] = {}


@pytest.mark.parametrize(("configuration_name", "check_name"), _CASES, ids=[f"{c}-{k}" for c, k in _CASES])
def test_it(configuration_name: str, check_name: str, request: pytest.FixtureRequest) -> None:
    if configuration_name not in _results:
        wanted = _wanted(request.session, configuration_name)
        configuration = _BY_NAME[configuration_name]
        chosen = {k.name: k.seconds for k in _ALL[configuration.suite] if k.name in wanted}
        _results[configuration_name] = run(configuration, chosen, limit=900)
    outcome = _results[configuration_name].outcomes[check_name]
    if outcome.error:
        pytest.fail(f"{check_name} over {configuration_name}\n{outcome.error}", pytrace=False)


@pytest.mark.parametrize("configuration_name", _BY_NAME)
def test_nothing_is_left_behind(configuration_name: str) -> None:
    """Runs last: what the jobs above left in /dev/shm or among the processes."""
    if configuration_name in _results:
        assert not _results[configuration_name].leftovers
