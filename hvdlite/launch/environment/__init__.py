"""Which rank is this process, of how many, and how do they meet? Decided here, from what a launcher has left; pure but for the
secret's descriptor. `hvdlite.bootstrap` does what was decided.

N processes that each believe they are alone would train N models and say nothing: so what is incomplete or contradicts itself is
an error, and HVDLITE_ALLOW_SINGLETON=1 the only way round it.

    identity     the answer: an Identity, with its way to meet
    sources      the table of launchers and their variables
    discovery    their order, and what must not contradict
    meetings     how the ranks of each launcher meet
    transport    whether MPI is to be asked about
"""

from hvdlite.launch.environment.discovery import ALLOW_SINGLETON, allows_singleton, discover
from hvdlite.launch.environment.identity import Asked, Identity, Numbers
from hvdlite.launch.environment.transport import asks_about_mpi, meets_over_mpi
from hvdlite.rendezvous.addresses import parse_address, parse_addresses

__all__ = [
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
