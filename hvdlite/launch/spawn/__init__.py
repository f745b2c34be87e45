"""Ways to start a job's processes.

    local, guardian      on this host
    ssh, agent_protocol  on other hosts, through an agent
    delegated            through another launcher: mpi, slurm and lsf build its command line;
                         tags and failure_parsers read its output

`events` is what all of them share.
"""
