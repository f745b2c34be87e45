"""The life of a job in a rank: init and shutdown, process sets, observation.

These modules know no framework; `public` is what each adapter shows of them.

    basics             START HERE: init(), shutdown(), rank(), size()
    arrival            what init() needs before the native core can meet the other ranks
    bootstrap          how the ranks of other launchers find their store
    membership         this process as a member of an elastic job
    process_sets       registers and removes process sets
    public             the names that each framework's module has
    horovod_basics     Horovod's questions about the build, and its object HorovodBasics
    libraries          NCCL and MPI as this process would load them
    observe            timeline, counters, the last operations
    scalars            hvd.metric_scalars()
    progress           hvd.progress(): one bar for the whole job; `pace` says how fast others are
    pace               decides what the bar says of the other ranks, and asks them
    pulse              reports of this rank to the launcher's monitor
    where              answers where the program is when operations stall; writes the bundle
    frames             decides which line of the user's program a frame means
    torch_environment  torchrun's variables, and a job whose ranks have met at torch's store
    reconfiguration    jobs whose members the program chooses, one after another
    default_group      torch's default group in programs that make it themselves
"""
