"""horovod.runner.elastic: what programs use of the parts behind elastic training."""
