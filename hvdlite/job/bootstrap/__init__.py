"""How the ranks that another launcher has started find their store. Executes the decision of
`launch/environment`.

hvdliterun opens the store itself. Under every other launcher, rank 0 opens it inside its own
process. The others learn its address and the job's secret over a channel of that launcher.

    meeting     START HERE: from each way to meet to a place
    opening     rank 0's store
    offer       what rank 0 tells the others, and what they do with it
    by_mpi, by_http, by_torch    channels: rank 0 says something, and all ranks hear it
    by_socket   the channel of ranks on one host, of one user
    by_ports    no channel: a port and a key that all ranks can compute
    arrivals    what rank 0 takes back when all ranks have come
    chosen      init(comm=...): some of the ranks, or another order

These modules are about the MPI of this process, for jobs whose tensors may go over it:

    mpi_library    loaded, initialised, compared with the launcher
    mpi_agreement  do all ranks have one?
    mpi_facts      what the native core is told about it
    mpi_end        hvdlite leaves before MPI ends, and a failed job does not wait in MPI_Finalize
"""

from hvdlite.job.bootstrap.arrivals import all_are_here
from hvdlite.job.bootstrap.by_mpi import refuse_to_be_alone
from hvdlite.job.bootstrap.meeting import meet
from hvdlite.job.bootstrap.mpi_library import Wish
from hvdlite.job.bootstrap.offer import Place

__all__ = ["Place", "Wish", "all_are_here", "meet", "refuse_to_be_alone"]
