"""horovod.runner: starting jobs."""
