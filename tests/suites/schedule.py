"""Which suite starts next: the longest that fits beside what runs. DECIDES: no clock, no
processes."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from suites.table import Suite


def next_suite(
    waiting: Sequence[Suite],
    running: Collection[Suite],
    passed: Collection[str],
    cores: float,
    apart: bool = True,
) -> Suite | None:
    """One of `waiting`, or None where everything has to wait. Something always runs while anything
    can.

    `apart`: each suite has a /dev/shm of its own. Without it no two suites that clean /dev/shm run
    side by side.
    """
    left = cores - sum(suite.cores for suite in running)
    ready = [
        s
        for s in waiting
        if (not s.after or s.after in passed) and (s.cores <= left or not running)
    ]
    if not apart and any(suite.cleans_shm for suite in running):
        ready = [s for s in ready if not s.cleans_shm]
    return max(ready, key=lambda s: s.seconds, default=None)


def hopeless(
    waiting: Sequence[Suite], running: Collection[Suite], passed: Collection[str]
) -> list[Suite]:
    """Those of `waiting` that wait for a suite which is not going to pass."""
    to_come = {s.name for s in (*waiting, *running)} | set(passed)
    return [s for s in waiting if s.after and s.after not in to_come]


def with_those_before(names: Collection[str], suites: Sequence[Suite]) -> list[Suite]:
    """The suites of these names, and those that have to pass before them."""
    wanted = set(names)
    for suite in reversed(suites):  # a suite stands behind the one that it waits for
        if suite.name in wanted and suite.after:
            wanted.add(suite.after)
    return [suite for suite in suites if suite.name in wanted]
