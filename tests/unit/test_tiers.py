"""What the tiers take of the batteries: nothing that the whole lacks, and every check in the
end."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest
import tier
from battery import cases_of
from checks import COSTLY, SUITES
from checks.listing import listed
from runner import Configuration
from suites.table import ROOT

CONFORMANCE = ROOT / "tests/conformance"
SEEDS = [str(number) for number in range(20)]
# MPI's battery leaves to the first one what comes before the communicator.
BATTERIES = {
    "numpy and MPI": ("test_conformance.py", "test_mpi.py"),
    **{name: (f"test_{name}.py",) for name in ("torch", "tensorflow", "jax", "keras")},
}
# The tier `all` alone runs it, as a whole.
WHOLE = {"test_less.py"}


def test_every_battery_is_here() -> None:
    assert {name for names in BATTERIES.values() for name in names} | WHOLE == {
        p.name for p in CONFORMANCE.glob("test_*.py")
    }


@pytest.fixture
def cases(monkeypatch: pytest.MonkeyPatch):
    def those_of(battery: str, of_tier: str, seed: str = "0") -> set[tuple[str, str]]:
        """Configurations and checks."""
        monkeypatch.setattr(tier, "TIER", of_tier)
        monkeypatch.setattr(tier, "SEED", seed)
        found: list[Configuration] = []
        for name in BATTERIES[battery]:
            found += runpy.run_path(str(Path(CONFORMANCE, name)))["CONFIGURATIONS"]
        return {(c.name, check.name) for c, check in cases_of(found)}

    return those_of


@pytest.mark.parametrize("battery", BATTERIES)
def test_shorter_runs_are_parts_of_the_whole(cases, battery: str) -> None:
    whole = cases(battery, "all")
    assert cases(battery, "quick") < whole
    for seed in SEEDS:
        assert cases(battery, "commit", seed) < whole


@pytest.mark.parametrize("battery", BATTERIES)
def test_the_runs_of_twenty_commits_try_every_check(cases, battery: str) -> None:
    tried = {check for seed in SEEDS for _, check in cases(battery, "commit", seed)}
    costly = {check.name for suite in SUITES for check in listed(suite) if COSTLY in check.tags}
    everything = {check for _, check in cases(battery, "all")}
    assert everything - costly <= tried <= everything
    assert tried & costly or not everything & costly


def test_costly_checks_come_by_turns_and_each_comes_in_the_end(cases) -> None:
    """Of checks that belong to one configuration, which is always there."""
    made = {
        check.name: 0 for check in listed("torch") if check.name.startswith("torch_compiled.op")
    }
    for seed in range(10 * tier.COSTLY_TURNS):
        for _, check in cases("torch", "commit", str(seed)):
            if check in made:
                made[check] += 1
    assert min(made.values()) > 0
    assert sum(made.values()) / len(made) == pytest.approx(10, rel=0.5)


def test_the_same_seed_picks_the_same(cases) -> None:
    assert cases("keras", "commit", "1") == cases("keras", "commit", "1")
    assert len({frozenset(cases("keras", "commit", seed)) for seed in SEEDS}) > 1


@pytest.mark.parametrize("others", ["a", "ab", "abc", "abcdefg"])
def test_of_pairs_each_value_has_some_others_and_every_pair_comes_in_the_end(
    monkeypatch: pytest.MonkeyPatch, others: str
) -> None:
    values = range(13)
    monkeypatch.setattr(tier, "TIER", "all")
    assert len(tier.some_pairs(values, others)) == len(values) * len(others)
    monkeypatch.setattr(tier, "TIER", "commit")
    taken = set()
    for seed in SEEDS:
        monkeypatch.setattr(tier, "SEED", seed)
        pairs = tier.some_pairs(values, others)
        assert {value for value, _ in pairs} == set(values)
        assert len(pairs) <= len(values) * -(-len(others) // min(3, len(others)))
        taken.update(pairs)
    assert len(taken) == len(values) * len(others)
