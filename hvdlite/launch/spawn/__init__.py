"""Starts a job's processes: on this host, on others, or through another launcher.

    events           START HERE: what all of them report, and the protocol of a group of ranks
    local            starts ranks on this host
    guardian         the process between the launcher and the ranks, which ends them in any case
    ssh              reaches other hosts by ssh or srun
    agent_protocol   what the launcher and the agent on another host send to one another
    silent_hosts     when a host counts as lost
    elastic_ranks    ranks that come and go one by one, each with a guardian
    delegated        ranks that mpirun or srun starts
    other_launchers  the command lines of mpirun, srun and jsrun
    launcher_output  which rank printed what in their output, and which rank failed

`events`, `agent_protocol`, `silent_hosts`, `other_launchers` and `launcher_output` are pure.
"""
