"""horovod.common: exceptions, process_sets, basics, util."""
