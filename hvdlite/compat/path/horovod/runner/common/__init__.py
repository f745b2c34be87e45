"""horovod.runner.common: what is in util."""
