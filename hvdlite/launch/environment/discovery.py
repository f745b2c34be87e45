"""The order of the sources, and what must not contradict."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from hvdlite.launch import secret as job_secret
from hvdlite.launch.environment import meetings
from hvdlite.launch.environment.identity import Asked, Identity, Numbers
from hvdlite.launch.environment.sources import HVDLITE, SOURCES, Source

ALLOW_SINGLETON = "HVDLITE_ALLOW_SINGLETON"

SecretReader = Callable[[Mapping[str, str]], bytes | None]
_ARGUMENTS = "the arguments of init()"


def discover(
    environ: Mapping[str, str],
    asked: Asked | None = None,
    read_secret: SecretReader = job_secret.from_environment,
) -> Identity:
    """Returns the identity of a process with this environment and these arguments of init().

    Raises ValueError if the arguments or a launcher's variables are incomplete or contradict
    themselves, and RuntimeError if launchers contradict one another.
    """
    asked = asked or Asked()
    may_be_alone = allows_singleton(environ)
    # A rank that wants to be alone takes all variables but our own for another launcher's.
    believed = [
        source
        for source in SOURCES
        if source.is_here(environ) and (source is HVDLITE or not may_be_alone)
    ]
    numbers = _asked_for(asked)
    launcher = _ARGUMENTS
    source: Source | None = None
    if numbers is None and believed:
        source = believed.pop(0)
        numbers, launcher = source.read(environ), source.named(environ)
    if numbers is None:
        meetings.refuse_without_numbers(environ, asked)
        return Identity()
    for other in believed:
        _refuse_to_contradict(environ, numbers, source, other)
    if numbers.size == 1 and not meetings.is_given(environ, asked):
        return Identity(**vars(numbers), launcher=launcher)
    by_mpi = source is not None and source.has_mpi(environ)
    meeting = meetings.choose(environ, asked, source, numbers)
    secret = meetings.secret_of(environ, asked, meeting, read_secret)
    return Identity(
        **vars(numbers), launcher=launcher, by_mpi=by_mpi, meeting=meeting, secret=secret
    )


def allows_singleton(environ: Mapping[str, str]) -> bool:
    """Whether the user says that this process is alone, whatever it has inherited."""
    return meetings.is_allowed(environ, ALLOW_SINGLETON)


def _asked_for(asked: Asked) -> Numbers | None:
    if asked.rank is None and asked.size is None:
        return None
    if asked.rank is None or asked.size is None:
        raise ValueError(
            f"init(rank={asked.rank}, size={asked.size}) is not allowed: give both, or neither."
        )
    for name, value in (("rank", asked.rank), ("size", asked.size)):
        if not isinstance(value, int) or isinstance(value, bool):
            raise TypeError(f"init({name}={value!r}) is not allowed: expected a whole number.")
    if not 0 <= asked.rank < asked.size:
        raise ValueError(
            f"init(rank={asked.rank}, size={asked.size}) is not allowed: rank has to be from 0 to "
            "size - 1."
        )
    return Numbers(asked.rank, asked.size)


def _refuse_to_contradict(
    environ: Mapping[str, str], numbers: Numbers, source: Source | None, other: Source
) -> None:
    """A lower source may describe other processes: under srun, Slurm counts torchrun's agents. But
    it must not count several processes if the chosen one says that this process is alone."""
    try:
        size = other.read(environ).size
    except ValueError:  # half of the variables were inherited from somewhere, so they prove nothing
        return
    ours = f"init(size={numbers.size})" if source is None else f"{source.global_[1]}={numbers.size}"
    theirs = (
        f"{other.named(environ)} has started {size} processes ({other.global_[1] or 'PMIx'}={size})"
    )
    if numbers.size == 1 and size > 1:
        raise RuntimeError(
            f"{theirs}, but {ours} comes first and says that this process is alone, so each of "
            "them would train alone. Unset the variables that are left from elsewhere. If this "
            f"process is meant to be alone, set {ALLOW_SINGLETON}=1."
        )
    same = source is not None and source.family and source.family == other.family
    if same and size != numbers.size and size > 1:
        raise RuntimeError(
            f"{theirs}, but {ours} is set. One of the two launchers was started inside the other, "
            "or its variables are left from elsewhere. Unset the variables of the launcher that "
            "did not start this process."
        )
