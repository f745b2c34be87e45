"""Starts the processes of a job and watches them; never sees a tensor.

    cli ──► plan (who is which rank) ──► spawn (start them) ──► watch (until the end)
                                                                  └─ output (their lines)

If mpirun or srun starts the ranks, `delegate` takes the place of `job`, with the same watch and
output. `environment` is the other side: from within a process, it tells which rank this is.
`function` is `hvdlite.run(fn)`, and `task` is what its ranks run. Nothing here imports the native
core or a framework, so `hvdliterun --help` works on a login node.

For programs that start jobs themselves, these are public:

    hvdlite.run(fn, args, num_proc=4)          runs a function in new processes; returns its results
    hvdlite.launch.cli.main(["-np", "4", ...]) hvdliterun with these arguments; returns its status
    hvdlite.launch.environment.discover(env)   the rank, size, ... of a process with this
                                               environment

The rest may change with any version.
"""
