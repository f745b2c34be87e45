"""Decides which rank this process is, of how many, and how the ranks meet, from the variables of a
launcher. Pure, except for the secret's descriptor. `hvdlite.job.bootstrap` executes the decision.

N processes that each believe they are alone would train N models and say nothing. So incomplete or
contradictory variables are an error; HVDLITE_ALLOW_SINGLETON=1 is the only way to avoid it.

    discovery    START HERE: the order of the launchers, what must not contradict, how ranks meet
    sources      the table of launchers and their variables
    identity     the result: an Identity, with its method of rendezvous
"""

from hvdlite.launch.environment.discovery import (
    ALLOW_OPEN_JOB,
    ALLOW_SINGLETON,
    allows_singleton,
    asks_about_mpi,
    discover,
    meets_over_mpi,
)
from hvdlite.launch.environment.identity import Identity, InitArguments, Numbers
from hvdlite.rendezvous.addresses import parse_address, parse_addresses

__all__ = [
    "ALLOW_OPEN_JOB",
    "ALLOW_SINGLETON",
    "InitArguments",
    "Identity",
    "Numbers",
    "allows_singleton",
    "asks_about_mpi",
    "discover",
    "meets_over_mpi",
    "parse_address",
    "parse_addresses",
]
