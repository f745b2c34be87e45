"""What of the battery is run over each MPI."""

from __future__ import annotations

from dataclasses import replace

from launchers import Launcher
from runner import Configuration
from tier import by_tier, one_of

_FORCED = {"HVDLITE_CPU_OPERATIONS": "mpi"}
# What depends on the communicator; the rest of the battery is about what comes before it.
_COLLECTIVES = ("basics", "collectives", "allreduce", "others", "determinism", "process_sets")


def configurations(launcher: Launcher) -> tuple[Configuration, ...]:
    """The ranks have no store but the one that rank 0 opens and tells of through MPI."""

    def whole(ranks: int) -> Configuration:
        """On one host, where shared memory would be quicker."""
        return Configuration(
            f"{launcher.name}-{ranks}", "mpi", ranks, (), _FORCED, launcher=launcher, over_mpi=True
        )

    def on_hosts(name: str, communicator: str, hosts: str, **knobs: str) -> Configuration:
        """MPI is what a job takes between hosts without being told."""
        return engine(name, len(hosts), communicator, tuple(hosts), CPU_OPERATIONS="auto", **knobs)

    def engine(
        name: str, ranks: int, communicator: str = "mpi", hosts: tuple[str, ...] = (), **knobs: str
    ) -> Configuration:
        """The checks that every way through the engine has to pass."""
        environment = _FORCED | {f"HVDLITE_{knob}": value for knob, value in knobs.items()}
        return Configuration(
            f"{launcher.name}-{name}", communicator, ranks, hosts, environment,
            tags=frozenset({"engine"}), launcher=launcher, over_mpi=True,
        )  # fmt: skip

    hierarchical = replace(
        on_hosts("2x2", "hierarchical", "aabb"), tags=frozenset(), modules=_COLLECTIVES
    )
    ways = one_of(
        (
            on_hosts("flat", "mpi", "abab", HIERARCHICAL_ALLREDUCE="off"),
            engine("library", 3, MPI_ALLREDUCE="library"),
            engine("direct", 3, MPI_ALLREDUCE="direct"),
        ),
        f"{launcher.name} ways",
    )
    knobs = one_of(
        (
            on_hosts("interleaved", "hierarchical", "abab"),
            on_hosts("2+1", "hierarchical", "aab"),
            engine("gather", 3, MPI_ALLREDUCE="gather"),
            engine("tiny-chunks", 2, MPI_CHUNK_BYTES="4096"),
            engine("one-at-a-time", 3, MPI_THREADS_DISABLE="1"),
            engine("delays", 2, DEBUG_DELAY_MICROSECONDS="300", CYCLE_TIME="0"),
        ),
        launcher.name,
    )
    commit = (
        replace(whole(3), modules=_COLLECTIVES), replace(hierarchical, turns=2), *ways, *knobs
    )  # fmt: skip
    return tuple(
        by_tier(commit, commit, (whole(2), whole(3), whole(4), hierarchical, *ways, *knobs))
    )
