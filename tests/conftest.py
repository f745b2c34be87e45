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
# Of the functions of a file of tests with processes a tier takes one in so many.
PROCESSES = {"quick": 4, "commit": 3}


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The test's process is a job of one rank."""
    import hvdlite as hvd

    monkeypatch.setenv("HVDLITE_ALLOW_SINGLETON", "1")
    hvd.init()
    yield
    hvd.shutdown()


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "costly: `commit` takes it by turns, `quick` never")
    config.addinivalue_line("markers", "always: each tier runs it: it starts no process")
    config.addinivalue_line("markers", "full: the tier `all` alone runs it")
    config.addinivalue_line("markers", "watchdog(seconds): a test may take this long (default 60)")
    if path := os.environ.get(VARIABLE):
        config.pluginmanager.register(Reporter(path))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if tier.TIER == "all" or _named(config):
        return
    left_out = set(map(id, _other_products(items)))
    left_out |= {id(item) for item in items if item.get_closest_marker("full")}
    left = [item for item in items if id(item) not in left_out]
    left_out |= set(map(id, _other_functions(left) + _other_costly(left)))
    if left_out:
        config.hook.pytest_deselected(items=[item for item in items if id(item) in left_out])
        items[:] = [item for item in items if id(item) not in left_out]


def _named(config: pytest.Config) -> bool:
    """A test that is asked for by its name runs in every tier."""
    return any(
        "::" in argument for argument in config.invocation_params.args if isinstance(argument, str)
    )


def _other_functions(items: list[pytest.Item]) -> list[pytest.Item]:
    """Tests with processes whose turn it is not; of those that are not costly."""
    files: dict[str, dict[str, list[pytest.Item]]] = {}
    for item in items:
        if _has_processes(item) and not item.get_closest_marker("costly"):
            functions = files.setdefault(item.path.name, {})
            functions.setdefault(item.nodeid.partition("[")[0], []).append(item)
    turns = PROCESSES[tier.TIER]
    return [
        item
        for name, functions in files.items()
        for function in set(functions) - set(tier.by_turns([*functions], name, turns))
        for item in functions[function]
    ]


def _other_costly(items: list[pytest.Item]) -> list[pytest.Item]:
    """Costly tests whose turn it is not; `quick` takes none. Each set of parameters counts by
    itself: one function may have twenty."""
    files: dict[str, list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker("costly"):
            files.setdefault(item.path.name, []).append(item)
    taken: set[pytest.Item] = set()
    for name, costly in files.items():
        if tier.TIER != "quick":
            taken |= set(tier.by_turns(costly, f"{name} costly", tier.COSTLY_TURNS))
    return [item for costly in files.values() for item in costly if item not in taken]


def _has_processes(item: pytest.Item) -> bool:
    return "multiprocess" in item.path.parts and not item.get_closest_marker("always")


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
