"""Ways to start a job's processes.

    local, guardian     on this host
    ssh, frames         on other hosts, through an agent
    delegated           through another launcher; mpi, slurm and lsf know its command line, tags and causes what it prints

`events` is what all of them have in common.
"""
