"""horovod.runner.common: only util."""
