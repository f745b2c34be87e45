"""Tells the ranks who they are and where they meet."""

from __future__ import annotations

from collections import Counter

from hvdlite.launch import secret
from hvdlite.ray import seats
from hvdlite.ray.meeting import Meeting
from hvdlite.ray.seats import Found
from hvdlite.ray.settings import MiniSettings


class Coordinator:
    """`register` each rank, then `finalize_registration()`, then `establish_rendezvous()`."""

    def __init__(self, settings: MiniSettings) -> None:
        self.settings = settings
        self._ranks: dict[int, Found] = {}
        self._meeting: Meeting | None = None

    @property
    def world_size(self) -> int:
        return len(self._ranks)

    @property
    def hostnames(self) -> set[str]:
        return {each.name for each in self._ranks.values()}

    @property
    def node_id_by_rank(self) -> dict[int, str]:
        return {rank: each.node for rank, each in self._ranks.items()}

    @property
    def node_id_string(self) -> str:
        """The number of ranks by node: "node:2,other:1"."""
        return ",".join(f"{node}:{n}" for node, n in Counter(self.node_id_by_rank.values()).items())

    @property
    def meeting(self) -> Meeting | None:
        """The store, while it is open."""
        return self._meeting

    def register(self, hostname: str, node_id: str, world_rank: int) -> None:
        """Ranks with one `node_id` are on one host."""
        self.found(world_rank, Found(node_id, node_id, hostname))

    def found(self, world_rank: int, found: Found) -> None:
        """Like register(), with all that an actor says of itself."""
        self._ranks[world_rank] = found

    def finalize_registration(self) -> dict[int, dict[str, str]]:
        """Returns by rank the variables with its numbers."""
        ranks = [self._ranks[rank] for rank in range(len(self._ranks))]
        return dict(enumerate(seats.environments(ranks)))

    def establish_rendezvous(self) -> dict[str, str]:
        """Opens the store of a job. Returns the variables that are equal for all of its ranks, with
        the secret: callers such as Ray's HorovodTrainer hand over variables and nothing else."""
        shared = self.open()
        assert self._meeting is not None
        return {**shared, secret.TEXT_VARIABLE: self._meeting.key.hex()}

    def open(self) -> dict[str, str]:
        """Like establish_rendezvous(), without the secret, which is that of `meeting`."""
        self.close()
        hosts = {each.host for each in self._ranks.values()}
        self._meeting = Meeting(hosts, self.settings.timeout_s)
        return self._meeting.environment

    def close(self) -> None:
        """Ends the store, if it is open."""
        if self._meeting is not None:
            self._meeting.close()
        self._meeting = None
