"""The battery for hvdlite.torch: as test_conformance.py, with the checks of the suite "torch"."""

from __future__ import annotations

import functools

import checks
import pytest
from runner import Configuration, Result, run

pytest.importorskip("torch", reason="torch is not installed")

_ALL = checks.everything("torch")

CONFIGURATIONS = (
    *(Configuration(f"shm-{n}", "shm", n, suite="torch") for n in (1, 2, 3, 4)),
    Configuration("net-2", "net", 2, ("host0", "host1"), suite="torch"),
)
_BY_NAME = {c.name: c for c in CONFIGURATIONS}
_CASES = [(c.name, k.name) for c in CONFIGURATIONS for k in _ALL if c.ranks >= k.min_ranks]


@functools.cache
def _wanted(session: pytest.Session, configuration_name: str) -> frozenset[str]:
    parameters = [getattr(item, "callspec", None) for item in session.items if item.path.name == "test_torch.py"]
    chosen = [p.params for p in parameters if p and p.params.get("configuration_name") == configuration_name]
    return frozenset(p["check_name"] for p in chosen if "check_name" in p)


_results: dict[str, Result] = {}


@pytest.mark.parametrize(("configuration_name", "check_name"), _CASES, ids=[f"{c}-{k}" for c, k in _CASES])
def test_it(configuration_name: str, check_name: str, request: pytest.FixtureRequest) -> None:
    if configuration_name not in _results:
        wanted = _wanted(request.session, configuration_name)
        chosen = {k.name: k.seconds for k in _ALL if k.name in wanted}
        _results[configuration_name] = run(_BY_NAME[configuration_name], chosen, limit=400)
    outcome = _results[configuration_name].outcomes[check_name]
    if outcome.error:
        pytest.fail(f"{check_name} over {configuration_name}\n{outcome.error}", pytrace=False)


@pytest.mark.parametrize("configuration_name", _BY_NAME)
def test_nothing_is_left_behind(configuration_name: str) -> None:
    """Runs last: what the jobs above left in /dev/shm or among the processes."""
    if configuration_name in _results:
        assert not _results[configuration_name].leftovers
