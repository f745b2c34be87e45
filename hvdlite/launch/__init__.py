"""Starts the processes of a job and watches them; never sees a tensor.

    cli ──► plan (who is which rank) ──► spawn (start them) ──► watch (until the end)
                                                                  └─ output (their lines)

    cli            START HERE: `hvdliterun`, from the command line to a job
    flags          the command line and the config file
    hosts          the hosts of -H, a hostfile or a batch system
    nodelist       Slurm's notation of nodes
    plan           places ranks on hosts, and builds their environment
    machine        the cores and GPUs of this host, and each rank's share
    job            what every job has: options, a console, a store, a last line
    direct         a job whose ranks hvdliterun starts itself
    delegate       a job whose ranks mpirun or srun starts
    elastic        a job whose ranks come and go
    spawn          starts processes here, on other hosts, or through another launcher
    agent          starts the ranks of another host
    watch          the loop from the ranks' start to their end
    observers      what accompanies a job in this loop
    verdict        whose failure ended the job, and the last line
    last_words     the line that names an exception
    console        the launcher's stdout and stderr
    output         turns the ranks' output into lines of the launcher
    collapse       `--collapse`: equal lines of several ranks are one line
    monitor        what each rank does, on a terminal and for other programs
    attach         how `hvdlite top` reaches a job
    function       `hvdlite.run(fn)`
    task           what its ranks run
    delivery       takes the function to the ranks, and brings results back
    secret         the job's secret
    environment    from within a process: which rank this is, and how it meets the others
    check_build    `hvdliterun --check-build`

Nothing here imports the native core or a framework, so `hvdliterun --help` works on a login node.

For programs that start jobs themselves, these are public:

    hvdlite.run(fn, args, num_proc=4)          runs a function in new processes; returns its results
    hvdlite.launch.cli.main(["-np", "4", ...]) hvdliterun with these arguments; returns its status
    hvdlite.launch.environment.discover(env)   the rank, size, ... of a process with this
                                               environment

The rest may change with any version.
"""
