"""How the ranks that another launcher has started find their store: does what `launch/environment` has decided.

hvdliterun opens the store itself. Under every other launcher rank 0 opens it inside its own process, and the others have to learn
where it is and the job's secret: over whatever that launcher gives its processes.

    meeting     START HERE: one way or another to a place
    opening     rank 0's store
    offer       what rank 0 tells the others, and what they do with it
    by_mpi, by_http, by_torch    channels: something said by rank 0, heard by all
    by_socket   the channel of ranks on one host, of one user
    by_ports    no channel: a port and a key that all can work out
    arrivals    what rank 0 takes back when all have come

    chosen      init(comm=...): some of the ranks, or another order

and what the MPI of this process is, for those jobs whose tensors may travel over it:

    mpi_library loaded, initialised, compared with the launcher
    mpi_agreement  have all ranks one?
    mpi_facts   what the native core is told about it
    mpi_end     hvdlite leaves before MPI ends, and a job that has failed does not wait in MPI_Finalize
"""

from hvdlite.bootstrap.arrivals import all_are_here
from hvdlite.bootstrap.by_mpi import refuse_to_be_alone
from hvdlite.bootstrap.meeting import meet
from hvdlite.bootstrap.mpi_library import Wish
from hvdlite.bootstrap.offer import Place

__all__ = ["Place", "Wish", "all_are_here", "meet", "refuse_to_be_alone"]
