"""How the ranks that another launcher has started find their store. Executes the decision of
`launch/environment`.

hvdliterun opens the store itself. Under every other launcher, rank 0 opens it inside its own
process. The others learn its address and the job's secret over a channel of that launcher.

    rendezvous  START HERE: how the ranks of each launcher find their store; two of the channels by
                which rank 0 says something and all ranks hear it
    offer       rank 0's store, and what rank 0 tells the others about it
    by_socket   the channel of ranks on one host, of one user
    by_ports    no channel: a port and a key that all ranks can compute
    mpi         the MPI of this process: a channel, and what the native core is told about it
    mpi_end     hvdlite leaves before MPI ends, and a failed job does not wait in MPI_Finalize
"""

from hvdlite.job.bootstrap.mpi import MpiRequest, refuse_to_be_alone
from hvdlite.job.bootstrap.offer import StoreAccess, all_are_here
from hvdlite.job.bootstrap.rendezvous import meet

__all__ = ["MpiRequest", "StoreAccess", "all_are_here", "meet", "refuse_to_be_alone"]
