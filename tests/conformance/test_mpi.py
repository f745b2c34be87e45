"""The battery under mpiexec, over MPI: Open MPI's wheel and MPICH's, the same binary of ours. Ranks
meet over MPI, too.

`tests/versions/run mpi-debian` does the same with Debian's MPIs (over_debian_mpi.py).
"""

from __future__ import annotations

from battery import battery_of
from launchers import MPICH, OPENMPI
from over_mpi import configurations

CONFIGURATIONS = (*configurations(OPENMPI), *configurations(MPICH))

test_it, test_nothing_is_left_behind = battery_of(CONFIGURATIONS)
