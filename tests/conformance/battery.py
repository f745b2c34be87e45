"""A battery as tests of pytest: each configuration is one job in which all its checks run (see
worker.py), each check a test.

`pytest -k shm-3`, `pytest -k 'allreduce and net'` choose as usual: only what is chosen runs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import tier
from checks import ALWAYS, COSTLY, Listed
from checks.listing import listed
from runner import Configuration, Result, run

# of a configuration, in seconds: a multiple of what it takes, since each check has a limit of its
# own
LIMIT = 400.0


def belongs(configuration: Configuration, check: Listed) -> bool:
    if configuration.ranks < check.min_ranks:
        return False
    if ALWAYS in check.tags:
        return True
    if configuration.modules and check.name.partition(".")[0] not in configuration.modules:
        return False
    return not configuration.tags or bool(configuration.tags & check.tags)


def cases_of(configurations: Sequence[Configuration]) -> list[tuple[Configuration, Listed]]:
    """What a run makes. Below the tier `all` each check once over each communicator of each
    launcher, in a configuration that the seed picks; a costly one by turns. What a configuration
    with turns of its own makes comes on top of that."""
    cases = [(c, check) for c in configurations for check in listed(c.suite) if belongs(c, check)]
    if tier.TIER == "all":
        return cases
    alike: dict[tuple[str, ...], list[str]] = {}
    for c, check in cases:
        alike.setdefault(_promise(c, check), []).append(c.name)
    return [(c, check) for c, check in cases if _drawn(c, check, alike[_promise(c, check)])]


def _promise(configuration: Configuration, check: Listed) -> tuple[str, ...]:
    c = configuration
    apart = c.name if c.turns > 1 else ""
    return c.launcher.name, c.communicator, c.suite, check.name, apart


def _drawn(configuration: Configuration, check: Listed, alike: Sequence[str]) -> bool:
    if ALWAYS in check.tags:
        return True
    what = " ".join(_promise(configuration, check))
    turns = len(alike) * max(configuration.turns, COSTLY in check.tags and tier.COSTLY_TURNS)
    return tier.draw(what, turns) == alike.index(configuration.name)


def battery_of(
    configurations: Sequence[Configuration], limit: float = LIMIT
) -> tuple[Callable[..., None], Callable[..., None]]:
    """test_it and test_nothing_is_left_behind, for a module of tests that puts them in this
    order."""
    by_name = {c.name: c for c in configurations}
    cases = [(c.name, check.name) for c, check in cases_of(configurations)]
    results: dict[str, Result] = {}

    def result(name: str, request: pytest.FixtureRequest) -> Result:
        if name not in results:
            wanted = {
                given.get("check_name")
                for item in request.session.items
                if item.path == request.path
                and (given := _parameters(item)).get("configuration_name") == name
            }
            of_suite = listed(by_name[name].suite)
            chosen = {check.name: check.seconds for check in of_suite if check.name in wanted}
            results[name] = run(by_name[name], chosen, limit)
        return results[name]

    @pytest.mark.parametrize(
        ("configuration_name", "check_name"), cases, ids=[f"{c}-{k}" for c, k in cases]
    )
    def test_it(configuration_name: str, check_name: str, request: pytest.FixtureRequest) -> None:
        if reason := by_name[configuration_name].launcher.why_not():
            pytest.skip(reason)
        outcome = result(configuration_name, request).outcomes[check_name]
        if outcome.error:
            pytest.fail(f"{check_name} over {configuration_name}\n{outcome.error}", pytrace=False)
        if outcome.skipped:
            pytest.skip(outcome.skipped)

    @pytest.mark.parametrize("configuration_name", by_name)
    def test_nothing_is_left_behind(configuration_name: str) -> None:
        """Runs last: what the jobs above left in /dev/shm or among the processes."""
        if configuration_name in results:
            assert not results[configuration_name].leftovers

    return test_it, test_nothing_is_left_behind


def _parameters(item: pytest.Item) -> dict[str, Any]:
    call = getattr(item, "callspec", None)
    return call.params if call else {}
