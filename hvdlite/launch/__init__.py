"""Starts the processes of a job and watches over them; never sees a tensor.

    cli ──► plan (who is which rank) ──► spawn (start them) ──► watch (until the end)
                                                                  └─ output (their lines)

Where mpirun or srun starts the ranks it is `delegate` instead of `job`, with the same watch and output.
`environment` is the other side: from within a process it tells which rank this is. `function` is `hvdlite.run(fn)`,
`task` what its ranks run. Nothing in here imports the native core or a framework, so that `hvdliterun --help` works on
a login node.

For programs that start jobs themselves these are public:

    hvdlite.run(fn, args, num_proc=4)           a function in new processes, and what it returns there
    hvdlite.launch.cli.main(["-np", "4", ...])  hvdliterun with these arguments; returns its exit status
    hvdlite.launch.environment.discover(env)    the rank, size, ... that a process with this environment has

The rest may change with any version.
"""
