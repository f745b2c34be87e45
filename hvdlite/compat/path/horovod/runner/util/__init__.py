"""horovod.runner.util: small helpers of the launcher that programs use."""
