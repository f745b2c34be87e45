"""Decides which rank this process is, of how many, and how the ranks meet, from the variables of a
launcher. Pure, except for the secret's descriptor. `hvdlite.job.bootstrap` executes the decision.

N processes that each believe they are alone would train N models and say nothing. So incomplete or
contradictory variables are an error; HVDLITE_ALLOW_SINGLETON=1 is the only way to avoid it.

    identity     the result: an Identity, with its way to meet
    sources      the table of launchers and their variables
    discovery    the order of the sources, and what must not contradict
    meetings     how the ranks of each launcher meet
    transport    whether hvdlite asks about MPI
"""

from hvdlite.launch.environment.discovery import ALLOW_SINGLETON, allows_singleton, discover
from hvdlite.launch.environment.identity import Asked, Identity, Numbers
from hvdlite.launch.environment.meetings import ALLOW_OPEN_JOB
from hvdlite.launch.environment.transport import asks_about_mpi, meets_over_mpi
from hvdlite.rendezvous.addresses import parse_address, parse_addresses

__all__ = [
    "ALLOW_OPEN_JOB",
    "ALLOW_SINGLETON",
    "Asked",
    "Identity",
    "Numbers",
    "allows_singleton",
    "asks_about_mpi",
    "discover",
    "meets_over_mpi",
    "parse_address",
    "parse_addresses",
]
