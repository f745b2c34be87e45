"""For all tests: what is told to scripts/test, and which of the products of parameters a tier takes
(conformance/tier.py)."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
import tier
from suites.reporting import VARIABLE, Reporter

# Parameters whose values are ways to the same promise: `quick` and `commit` keep one value for each
# test.
PRODUCTS = ("hosts", "mpirun", "jit")
# Of the tests marked `costly`, which take the processor for many seconds, `commit` keeps one in so
# many.
COSTLY_TURNS = 4
# Of the tests with processes `quick` keeps one in so many.
QUICK_PROCESSES = 3


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The test's process is a job of one rank."""
    import hvdlite as hvd

    monkeypatch.setenv("HVDLITE_ALLOW_SINGLETON", "1")
    hvd.init()
    yield
    hvd.shutdown()


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "costly: a commit's run takes it by turns")
    config.addinivalue_line("markers", "full: the tier `all` alone runs it")
    config.addinivalue_line("markers", "watchdog(seconds): a test may take this long (default 60)")
    if path := os.environ.get(VARIABLE):
        config.pluginmanager.register(Reporter(path))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if tier.TIER == "all" or _named(config):
        return
    left_out = set(map(id, _other_products(items)))
    left_out |= {id(item) for item in items if not _taken(item)}
    if left_out:
        config.hook.pytest_deselected(items=[item for item in items if id(item) in left_out])
        items[:] = [item for item in items if id(item) not in left_out]


def _named(config: pytest.Config) -> bool:
    """A test that is asked for by its name runs in every tier."""
    return any(
        "::" in argument for argument in config.invocation_params.args if isinstance(argument, str)
    )


def _taken(item: pytest.Item) -> bool:
    if item.get_closest_marker("full"):
        return False
    if tier.TIER == "quick" and "multiprocess" in item.path.parts:
        return tier.draw(item.nodeid.partition("[")[0], QUICK_PROCESSES) == 0
    # Each set of parameters by itself: one function may have twenty.
    return not item.get_closest_marker("costly") or tier.draw(item.nodeid, COSTLY_TURNS) == 0


def _other_products(items: list[pytest.Item]) -> list[pytest.Item]:
    groups: dict[str, list[pytest.Item]] = {}
    for item in items:
        call = getattr(item, "callspec", None)
        product = next((name for name in PRODUCTS if call and name in call.params), None)
        if product and call:
            rest = sorted(
                (name, str(value)) for name, value in call.params.items() if name != product
            )
            groups.setdefault(f"{item.nodeid.partition('[')[0]} {rest}", []).append(item)
    return [
        member
        for what, members in groups.items()
        for number, member in enumerate(members)
        if number != tier.draw(what, len(members))
    ]
