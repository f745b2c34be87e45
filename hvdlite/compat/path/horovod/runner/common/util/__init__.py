"""horovod.runner.common.util: small helpers of the launcher that programs and schedulers use."""
