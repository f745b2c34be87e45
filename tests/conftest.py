"""Of the tests that are multiplied by a parameter of a fixture, the tiers `quick` and `commit` keep one each: see conformance/tier.py."""

from __future__ import annotations

import pytest
import tier

# Fixtures whose values are ways to the same promise.
PRODUCTS = ("hosts", "mpirun")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if tier.TIER == "all":
        return
    groups: dict[tuple[str, str], list[pytest.Item]] = {}
    for item in items:
        call = getattr(item, "callspec", None)
        product = next((name for name in PRODUCTS if call and name in call.params), None)
        if product and call:
            rest = {name: value for name, value in call.params.items() if name != product}
            groups.setdefault((item.nodeid.partition("[")[0], repr(sorted(rest.items(), key=str))), []).append(item)
    left_out: list[pytest.Item] = []
    for (function, rest), members in groups.items():
        chosen = members[tier.draw(function + rest, len(members))]
        left_out += [member for member in members if member is not chosen]
    if left_out:
        gone = set(map(id, left_out))
        items[:] = [item for item in items if id(item) not in gone]
        config.hook.pytest_deselected(items=left_out)
