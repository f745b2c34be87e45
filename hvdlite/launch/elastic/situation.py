"""What --monitor shows of an elastic job beside its ranks. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from hvdlite.launch.elastic.crew import Member, Stage
from hvdlite.launch.elastic.membership import Membership
from hvdlite.launch.watch import Situation


def situation(machine: Membership, now: float) -> Situation:
    """The present generation, its members, newcomers and places that are empty for a while."""
    crew = machine.crew
    ranks = sorted(crew.of(Stage.SERVING), key=lambda member: member.rank)
    if machine.generation:
        parts = [f"generation {machine.generation}"]
    else:
        parts = ["before the first generation"]
    parts += _named("starting", crew.of(Stage.COLD))
    parts += _named("ready", crew.of(Stage.WARM))
    parts += _named("leaving", crew.leaving())
    cooling = [
        place if seconds == float("inf") else f"{place} for {seconds:.0f} s"
        for place, seconds in crew.cooling(now).items()
    ]
    parts += [f"empty after a failure: {', '.join(cooling)}"] if cooling else []
    hosts = {member.rank: f"{member.host}, member {member.number}" for member in ranks}
    names = tuple(dict.fromkeys(member.host for member in ranks))
    return Situation(hosts, "; ".join(parts), max(0, machine.generation - 1), names)


def _named(what: str, members: Sequence[Member]) -> list[str]:
    places = [f"member {each.number} on {each.host}" for each in members]
    return [f"{what}: {', '.join(places)}"] if places else []
